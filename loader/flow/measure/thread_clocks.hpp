// SPDX-License-Identifier: Apache-2.0
// CPU time of the threads of a loader.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

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
  /// null counts nothing.
  class Enlisted {
   public:
    explicit Enlisted(ThreadClocks* clocks) noexcept : clocks_(clocks) {
      if (clocks_ != nullptr) clocks_->enlist(*this);
    }
    Enlisted(const Enlisted&) = delete;
    Enlisted& operator=(const Enlisted&) = delete;
    ~Enlisted() {
      if (clocks_ != nullptr) clocks_->leave(*this);
    }

   private:
    friend class ThreadClocks;
    ThreadClocks* const clocks_;
    // The others are guarded by the mutex of the clocks.
    clockid_t clock_ = CLOCK_THREAD_CPUTIME_ID;
    Enlisted* previous_ = nullptr;
    Enlisted* next_ = nullptr;
  };

  /// Returns the CPU time in ns of all threads that are or were enlisted. Costs a system call per thread.
  std::uint64_t cpu_ns() const noexcept H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::uint64_t sum = ended_ns_;
    for (const Enlisted* thread = first_; thread != nullptr; thread = thread->next_)
      sum += time_of(thread->clock_);
    return sum;
  }

 private:
  void enlist(Enlisted& thread) noexcept H5FEED_EXCLUDES(mutex_) {
    pthread_getcpuclockid(pthread_self(), &thread.clock_);
    const MutexLock lock(mutex_);
    thread.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &thread;
    first_ = &thread;
  }

  void leave(Enlisted& thread) noexcept H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ended_ns_ += time_of(thread.clock_);
    (thread.previous_ == nullptr ? first_ : thread.previous_->next_) = thread.next_;
    if (thread.next_ != nullptr) thread.next_->previous_ = thread.previous_;
  }

  static std::uint64_t time_of(clockid_t clock) noexcept {
    timespec time = {};
    if (clock_gettime(clock, &time) != 0) return 0;
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

  mutable Mutex mutex_;
  Enlisted* first_ H5FEED_GUARDED_BY(mutex_) = nullptr;   // of the threads that are enlisted
  std::uint64_t ended_ns_ H5FEED_GUARDED_BY(mutex_) = 0;  // of those that have left
};

}  // namespace h5feed
