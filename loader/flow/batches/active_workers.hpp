// SPDX-License-Identifier: Apache-2.0
// Which of the worker threads take tasks.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.hpp"

namespace h5feed {

/// The workers 0 … count − 1 are active; the others sleep on a condition variable until they are.
/// Thread-safe.
class ActiveWorkers {
 public:
  explicit ActiveWorkers(std::int64_t count) : count_(count) {}
  ActiveWorkers(const ActiveWorkers&) = delete;
  ActiveWorkers& operator=(const ActiveWorkers&) = delete;

  /// Returns whether the worker may take a task.
  bool contains(std::int64_t worker) const noexcept { return worker < count(); }

  /// Returns the number of active workers.
  std::int64_t count() const noexcept { return count_.load(std::memory_order_seq_cst); }

  /// Blocks until the worker is active, or until `stop`.
  void wait(std::int64_t worker) H5FEED_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!stopped_ && !contains(worker)) changed_.wait(lock);
  }

  /// Sets the number of active workers, and wakes those that become active. A worker that is no longer active
  /// ends its task first.
  void set(std::int64_t count) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    count_.store(count, std::memory_order_seq_cst);
    changed_.notify_all();
  }

  /// Makes every `wait`, current or later, return.
  void stop() H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::atomic<std::int64_t> count_;
  bool stopped_ H5FEED_GUARDED_BY(mutex_) = false;
};

}  // namespace h5feed
