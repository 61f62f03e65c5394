// SPDX-License-Identifier: Apache-2.0
// The GIL, in threads that may outlive the interpreter.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace h5feed::python {

/// Returns what `take` returns, which waits for the GIL or runs Python code. Before version 3.14, Python ends
/// a daemon thread there by pthread_exit(3) once the interpreter is being finalized, which ends the process
/// where it unwinds functions that must not throw. Such a thread waits here for the end of the process
/// instead, as in Python 3.14.
template <typename Take>
auto wait_for_gil(const Take& take) {
  try {
    return take();
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

/// Releases the GIL, which the thread holds, as long as the object exists.
class GilRelease {
 public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() {
    wait_for_gil([this] {
      PyEval_RestoreThread(state_);
      return 0;
    });
  }

 private:
  PyThreadState* const state_;
};

/// Holds the GIL as long as the object exists, in any thread.
class GilAcquire {
 public:
  GilAcquire() : state_(wait_for_gil([] { return PyGILState_Ensure(); })) {}
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  ~GilAcquire() { PyGILState_Release(state_); }

 private:
  const PyGILState_STATE state_;
};

}  // namespace h5feed::python
