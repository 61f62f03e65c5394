// SPDX-License-Identifier: Apache-2.0
// Exceptions on their way from C++ to Python, and from a Python callback through C++ back to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <stdexcept>

#include "python/src/gil.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// A Python exception that a callback raised, as a C++ exception that may be thrown several times and copied
/// and destroyed without the GIL.
class CallbackError : public std::runtime_error {
 public:
  /// Takes the exception. Call with the GIL held.
  explicit CallbackError(nb::python_error&& error);
  /// Raises the exception in Python again; a StopIteration as the cause of a RuntimeError, because it would
  /// end the loop of the caller. Call with the GIL held.
  void restore() const;

 private:
  std::shared_ptr<nb::python_error> error_;
};

/// Returns whether a call of `with_gil` runs on this thread.
bool in_callback() noexcept;

/// Counts the calls of `with_gil` that run on this thread.
class CallbackDepth {
 public:
  CallbackDepth() noexcept;
  CallbackDepth(const CallbackDepth&) = delete;
  CallbackDepth& operator=(const CallbackDepth&) = delete;
  ~CallbackDepth();
};

/// Runs `call` with the GIL and returns its result. Throws CallbackError if it raises.
template <typename Call>
auto with_gil(Call&& call) {
  const GilAcquire gil;
  const CallbackDepth depth;
  try {
    return wait_for_gil(call);  // which it releases and takes again
  } catch (nb::python_error& error) {
    throw CallbackError(std::move(error));
  }
}

/// Makes h5feed's exceptions arrive as those of the Python module h5feed._errors.
void bind_errors(nb::module_& module);

}  // namespace h5feed::python
