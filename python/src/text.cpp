// SPDX-License-Identifier: Apache-2.0
#include "python/src/text.hpp"

#include "h5feed/error.hpp"

namespace h5feed::python {
namespace {

// Returns the bytes object as a string, without null bytes. `given` is what it was made of.
std::string without_null(const char* name, const nb::bytes& bytes, nb::handle given) {
  const std::string_view text(bytes.c_str(), bytes.size());
  if (text.find('\0') != std::string_view::npos)
    throw OptionError(std::string(name) + ": embedded null byte in " + shown(given, true));
  return std::string(text);
}

[[noreturn]] void not_encodable(const char* name, nb::handle given) {
  PyErr_Clear();
  throw OptionError(std::string(name) + ": " + shown(given, true) +
                    " has a lone surrogate, which no file or name can have");
}

}  // namespace

std::string bytes_of(const char* name, nb::handle text) {
  PyObject* const bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (bytes == nullptr) not_encodable(name, text);
  return without_null(name, nb::steal<nb::bytes>(bytes), text);
}

std::string path_of(const char* name, nb::handle path) {
  PyObject* const plain = PyOS_FSPath(path.ptr());
  if (plain == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    nb::raise_type_error("%s: expected str, bytes or os.PathLike, got %s", name,
                         shown(nb::type_name(path.type())).c_str());
  }
  const auto owned = nb::steal<nb::object>(plain);
  if (nb::isinstance<nb::bytes>(owned)) return without_null(name, nb::borrow<nb::bytes>(owned), owned);
  PyObject* const bytes = PyUnicode_EncodeFSDefault(plain);
  if (bytes == nullptr) not_encodable(name, owned);
  return without_null(name, nb::steal<nb::bytes>(bytes), owned);
}

nb::str text_of(std::string_view bytes) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

std::string shown(nb::handle object, bool quoted) {
  constexpr std::size_t kMost = 200;
  PyObject* const text = quoted ? PyObject_Repr(object.ptr()) : PyObject_Str(object.ptr());
  PyObject* const bytes =
      text == nullptr ? nullptr : PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
  Py_XDECREF(text);
  if (bytes == nullptr) {
    PyErr_Clear();
    return "(a value without text)";
  }
  const auto owned = nb::steal<nb::bytes>(bytes);
  const std::string_view all(owned.c_str(), owned.size());
  if (all.size() <= kMost) return std::string(all);
  std::size_t end = kMost;
  while ((static_cast<unsigned char>(all[end]) & 0xC0U) == 0x80U) --end;  // not within a character
  return std::string(all.substr(0, end)) + "…";
}

}  // namespace h5feed::python
