// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.hpp"

#include <utility>

#include "h5feed/error.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

// Raises the exception class `name` of h5feed._errors, which words the message in Python's terms.
void raise(const char* name, const char* message) {
  try {
    nb::module_::import_("h5feed._errors").attr("raise_from_core")(name, text_of(message));
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const CallbackError& error) {
    error.restore();
  } catch (const IsolationError& error) {
    raise("IsolationError", error.what());
  } catch (const FileError& error) {
    raise("FileError", error.what());
  } catch (const DatasetError& error) {
    raise("DatasetError", error.what());
  } catch (const ChunkError& error) {
    raise("ChunkError", error.what());
  } catch (const OptionError& error) {
    raise("OptionError", error.what());
  } catch (const TimeoutError& error) {
    raise("TimeoutError", error.what());
  } catch (const DeviceError& error) {
    raise("DeviceError", error.what());
  } catch (const StateError& error) {
    raise("StateError", error.what());
  } catch (const VersionError& error) {
    raise("VersionError", error.what());
  } catch (const Error& error) {
    raise("Error", error.what());
  }
}

// Calls of Python functions that run on this thread, one within the other.
thread_local int callbacks = 0;

}  // namespace

CallbackError::CallbackError(nb::python_error&& error)
    : std::runtime_error("a Python callback raised an exception"),
      error_(std::make_shared<nb::python_error>(std::move(error))) {}

void CallbackError::restore() const {
  nb::python_error copy(*error_);
  if (copy.matches(PyExc_StopIteration)) {
    PyErr_SetString(PyExc_RuntimeError, "a callback raised StopIteration");
    nb::python_error raised;  // takes it
    PyException_SetCause(raised.value().ptr(), nb::borrow(copy.value()).release().ptr());
    raised.restore();
    return;
  }
  copy.restore();
}

bool in_callback() noexcept { return callbacks > 0; }

CallbackDepth::CallbackDepth() noexcept { ++callbacks; }

CallbackDepth::~CallbackDepth() { --callbacks; }

void bind_errors(nb::module_& /*module*/) { nb::register_exception_translator(translate); }

}  // namespace h5feed::python
