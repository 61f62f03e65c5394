// SPDX-License-Identifier: Apache-2.0
// CPU time of the threads of a loader.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>
#include <list>

#include "base/mutex.hpp"

namespace h5feed {

/// Sums the CPU time of the threads that enlist. A thread that waits for storage or sleeps uses none.
/// Thread-safe.
class ThreadClocks {
 public:
  ThreadClocks() = default;
  ThreadClocks(const ThreadClocks&) = delete;
  ThreadClocks& operator=(const ThreadClocks&) = delete;

  /// Counts the calling thread from now on until it is destroyed, on the same thread. Borrows the clocks;
  /// null counts nothing. Throws std::bad_alloc.
  class Enlisted {
   public:
    explicit Enlisted(ThreadClocks* clocks) : clocks_(clocks) {
      if (clocks_ != nullptr) at_ = clocks_->enlist();
    }
    Enlisted(const Enlisted&) = delete;
    Enlisted& operator=(const Enlisted&) = delete;
    ~Enlisted() {
      if (clocks_ != nullptr) clocks_->leave(at_);
    }

   private:
    ThreadClocks* const clocks_;
    std::list<clockid_t>::iterator at_;
  };

  /// Returns the CPU time in ns of all threads that are or were enlisted. Costs a system call per thread.
  std::uint64_t cpu_ns() const noexcept H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::uint64_t sum = ended_ns_;
    for (const clockid_t clock : clocks_) sum += time_of(clock);
    return sum;
  }

 private:
  std::list<clockid_t>::iterator enlist() H5FEED_EXCLUDES(mutex_) {
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
    pthread_getcpuclockid(pthread_self(), &clock);
    const MutexLock lock(mutex_);
    return clocks_.insert(clocks_.end(), clock);
  }

  void leave(std::list<clockid_t>::iterator at) noexcept H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ended_ns_ += time_of(*at);
    clocks_.erase(at);
  }

  static std::uint64_t time_of(clockid_t clock) noexcept {
    timespec time = {};
    if (clock_gettime(clock, &time) != 0) return 0;
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

  mutable Mutex mutex_;
  std::list<clockid_t> clocks_ H5FEED_GUARDED_BY(mutex_);  // of the threads that are enlisted
  std::uint64_t ended_ns_ H5FEED_GUARDED_BY(mutex_) = 0;   // of those that have left
};

}  // namespace h5feed
