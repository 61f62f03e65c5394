// SPDX-License-Identifier: Apache-2.0
// Makes calls of the system fail. A test that links failing_calls.cpp has its pread, preadv and
// pthread_create; the module failing_calls, preloaded into a program, has them from its start on.
#pragma once

#include <cstdint>

namespace h5feed::test {

/// The ways in which a call of the system can fail here.
enum class CallFault {
  failed,       ///< a read fails with ENODEV, which is not tried again
  passing,      ///< a read fails with EIO, which may pass
  interrupted,  ///< a read fails with EINTR
  partial,      ///< a read delivers half
  end_of_file,  ///< a read finds the end of the file, and so do all after it: the file has become shorter
  no_thread,    ///< a thread cannot be started (EAGAIN)
  no_threads    ///< a thread cannot be started, nor any after it
};

/// While it lives, a call of the process goes wrong, on whichever thread, and for some faults all after it.
/// One at a time.
class FailingCalls {
 public:
  /// The call with this number goes wrong, counted from 0 among reads or among starts of threads.
  FailingCalls(CallFault fault, std::int64_t number) noexcept;
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  ~FailingCalls();

  /// Ends the faults; returns whether the call was made, and so went wrong.
  bool end() noexcept;
};

}  // namespace h5feed::test
