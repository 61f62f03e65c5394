// SPDX-License-Identifier: Apache-2.0
#include "python/src/convert.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "h5feed/error.hpp"
#include "h5feed/option_names.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

nb::object as_index(const char* name, nb::handle value) {
  if (PyBool_Check(value.ptr())) wrong_type(name, "int", value);  // A number to Python, and a mistake here
  PyObject* const number = PyNumber_Index(value.ptr());
  if (number == nullptr) wrong_type(name, "int", value);
  return nb::steal(number);
}

// Throws the error of a number that the integer type of an option cannot hold.
[[noreturn]] void out_of_range(const char* name, nb::handle number, const char* range) {
  PyErr_Clear();
  throw OptionError(std::string(name) + " is " + shown(number) + "; use a number from " + range);
}

// Returns an iterator over `value`; invalid if it is a single value, as NumPy's scalars are.
nb::object elements_of(nb::handle value) {
  PyObject* const iterator = PyObject_GetIter(value.ptr());
  if (iterator == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    return {};
  }
  return nb::steal(iterator);
}

// Calls `use` with each element of an iterable.
template <typename Use>
void for_each_element(const char* name, const char* expected, nb::handle value, Use use) {
  const nb::object elements = elements_of(value);
  if (!elements.is_valid()) wrong_type(name, expected, value);
  while (PyObject* const element = PyIter_Next(elements.ptr())) use(nb::steal<nb::object>(element));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

// Returns the fields of an options dataclass, or a dictionary of them.
Keywords fields_of(const char* name, nb::handle value) {
  if (nb::isinstance<nb::dict>(value)) return Keywords(nb::borrow<nb::dict>(value));
  if (!nb::hasattr(value, "__dataclass_fields__"))
    wrong_type(name, "a dict or the class of this option", value);
  return Keywords(nb::cast<nb::dict>(value.attr("__dict__")));
}

// Takes the options of a struct, called `kind` in Python.
template <typename Options>
void take_fields(const char* name, nb::handle value, const char* kind, Options& into) {
  Keywords given = fields_of(name, value);
  visit_options(into, [&](const char* option, auto& member) { given.take(option, member); });
  given.finish(kind);
}

}  // namespace

void wrong_type(const char* name, const char* expected, nb::handle value) {
  PyErr_Clear();
  nb::raise_type_error("%s: expected %s, got %s", name, expected, shown(nb::type_name(value.type())).c_str());
}

void convert(const char* name, nb::handle value, bool& into) {
  const int truth = nb::isinstance<nb::str>(value) ? -1 : PyObject_IsTrue(value.ptr());
  if (truth < 0) wrong_type(name, "bool", value);
  into = truth == 1;
}

void convert(const char* name, nb::handle value, double& into) {
  into = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) wrong_type(name, "float", value);
}

void convert(const char* name, nb::handle value, std::int64_t& into) {
  const nb::object number = as_index(name, value);
  into = PyLong_AsLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) out_of_range(name, number, "-2^63 to 2^63 - 1");
}

void convert(const char* name, nb::handle value, std::uint64_t& into) {
  const nb::object number = as_index(name, value);
  into = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) out_of_range(name, number, "0 to 2^64 - 1");
}

void convert(const char* name, nb::handle value, std::string& into) {
  if (!nb::isinstance<nb::str>(value)) wrong_type(name, "str", value);
  into = bytes_of(name, value);
}

void convert(const char* name, nb::handle value, std::chrono::milliseconds& into) {
  double seconds = 0;
  convert(name, value, seconds);
  if (!(seconds > 0)) throw OptionError(std::string(name) + " must be positive seconds; got " + shown(value));
  constexpr double kMost = 1e12;  // far beyond any run, and within the range of milliseconds
  into = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::fmin(seconds, kMost) * 1000)));
}

void convert(const char* name, nb::handle value, std::vector<double>& into) {
  into.clear();
  if (value.is_none()) return;
  if (!elements_of(value).is_valid()) {
    convert(name, value, into.emplace_back());
    return;
  }
  for_each_element(name, "float", value,
                   [&](nb::handle element) { convert(name, element, into.emplace_back()); });
}

void convert(const char* name, nb::handle value, std::vector<std::int64_t>& into) {
  into.clear();
  for_each_element(name, "a sequence of int", value,
                   [&](nb::handle element) { convert(name, element, into.emplace_back()); });
}

void convert(const char* name, nb::handle value, std::vector<std::filesystem::path>& into) {
  into.clear();
  for_each_element(name, "a path or several", value,
                   [&](nb::handle element) { convert(name, element, into.emplace_back()); });
}

void convert(const char* name, nb::handle value, std::vector<FieldOptions>& into) {
  into.clear();
  for_each_element(name, "a sequence of fields", value, [&](nb::handle element) {
    take_fields(name, element, "FieldOptions", into.emplace_back());
  });
}

void convert(const char* name, nb::handle value, DType& into) {
  std::string text;
  convert(name, value, text);
  const std::optional<DType> dtype = dtype_from_name(text);
  if (!dtype)
    throw OptionError(std::string(name) + ": no element type \"" + text + "\"; use e.g. \"float32\"");
  into = *dtype;
}

void convert(const char* name, nb::handle value, TileExtent& into) {
  if (elements_of(value).is_valid()) {
    std::vector<std::int64_t> extents;
    for_each_element(name, "int", value,
                     [&](nb::handle element) { convert(name, element, extents.emplace_back()); });
    if (extents.size() != 2 && extents.size() != 3)
      wrong_type(name, "int, (height, width) or (depth, height, width)", value);
    if (extents.size() == 3) into.depth = extents[0];
    into.height = extents[extents.size() - 2];
    into.width = extents.back();
    return;
  }
  convert(name, value, into.height);
  into.width = into.height;
}

void convert(const char* name, nb::handle value, GpuCacheBytes& into) {
  if (nb::isinstance<nb::str>(value)) {
    into = GpuCacheBytes(bytes_of(name, value));
    return;
  }
  std::uint64_t bytes = 0;
  convert(name, value, bytes);
  into = bytes;
}

void convert(const char* name, nb::handle value, LoaderDevice& into) {
  std::string device;
  convert(name, value, device);
  into = LoaderDevice(device);
}

void convert(const char* name, nb::handle value, WorkerCount& into) {
  if (!nb::isinstance<nb::str>(value)) {
    convert(name, value, into.count);
    if (into.count == kAuto)  // a number that means a word in C++ only
      throw OptionError(std::string(name) + " must be \"auto\" or a number of at least 0; got -1");
    return;
  }
  const std::string word = nb::borrow<nb::str>(value).c_str();
  if (word != "auto")
    throw OptionError(std::string(name) + " must be \"auto\" or a number; got \"" + word + "\"");
  into.count = kAuto;
}

void convert(const char* name, nb::handle value, Shuffle& into) {
  if (nb::isinstance<nb::str>(value)) {
    into = Shuffle(bytes_of(name, value));
    return;
  }
  bool full = false;
  convert(name, value, full);
  into = Shuffle(full);
}

void convert(const char* name, nb::handle value, std::filesystem::path& into) { into = path_of(name, value); }

void convert(const char* name, nb::handle value, Normalize& into) {
  take_fields(name, value, "Normalize", into);
}

void convert(const char* name, nb::handle value, ImageOptions& into) {
  take_fields(name, value, "ImageOptions", into);
}

void convert(const char* name, nb::handle value, TileOptions& into) {
  take_fields(name, value, "TileOptions", into);
}

void convert(const char* name, nb::handle value, EpisodeOptions& into) {
  take_fields(name, value, "EpisodeOptions", into);
}

void convert(const char* name, nb::handle value, std::vector<SparseOptions::Column>& into) {
  if (nb::isinstance<nb::str>(value)) wrong_type(name, "a sequence of int or str", value);
  for_each_element(name, "a sequence of int or str", value, [&](nb::handle element) {
    if (nb::isinstance<nb::str>(element)) {
      into.emplace_back(bytes_of(name, element));
      return;
    }
    convert(name, element, into.emplace_back(std::int64_t{0}).emplace<std::int64_t>());
  });
}

void convert(const char* name, nb::handle value, SparseOptions& into) {
  take_fields(name, value, "SparseOptions", into);
}

void convert(const char* name, nb::handle value, Augment::RandomCrop& into) {
  take_fields(name, value, "RandomCrop", into);
}

void convert(const char* name, nb::handle value, Augment::RandomResizedCrop& into) {
  take_fields(name, value, "RandomResizedCrop", into);
}

void convert(const char* name, nb::handle value, Augment& into) { take_fields(name, value, "Augment", into); }

void convert(const char* name, nb::handle value, Echo& into) {
  if (PyIndex_Check(value.ptr()) != 0) {
    convert(name, value, into.factor);
    return;
  }
  take_fields(name, value, "Echo", into);
}

}  // namespace h5feed::python
