// SPDX-License-Identifier: Apache-2.0
// Detects whether a section of code blocked its thread.
#pragma once

#include <sys/resource.h>

namespace h5feed {

/// Counts the voluntary context switches of the calling thread (getrusage(2), RUSAGE_THREAD): a read served
/// from the page cache makes none, a read that waits for a disk or a server makes at least one. Preemption
/// does not count, so that a busy machine is not taken for a slow disk. Construct and query it on the same
/// thread.
class SleepProbe {
 public:
  SleepProbe() noexcept : before_(switches()) {}

  /// Returns whether the thread has blocked since construction.
  bool slept() const noexcept { return switches() != before_; }

 private:
  static long switches() noexcept {
    rusage usage = {};
    return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
  }

  long before_;
};

}  // namespace h5feed
