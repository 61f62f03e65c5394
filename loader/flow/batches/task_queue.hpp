// SPDX-License-Identifier: Apache-2.0
// What workers take their tasks from: earliest deadline first.
#pragma once

#include <tbb/concurrent_priority_queue.h>

#include <atomic>
#include <memory>
#include <utility>

#include "base/mutex.hpp"

namespace h5feed {

/// An unbounded priority queue for many producers and consumers. `Later` orders tasks: true when its
/// first argument is due after its second. Pushing and popping take no lock of ours as long as there
/// is work; only a worker that found the queue empty sleeps on the mutex.
template <typename Task, typename Later>
class TaskQueue {
 public:
  /// Adds a task and wakes a sleeping worker, if any.
  void push(Task task) {
    tasks_.push(std::move(task));
    // A worker announces itself before its last look into the queue; a pusher looks for sleepers after
    // its push. Both in one total order, so one of the two sees the other.
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    const MutexLock lock(mutex_);
    awake_.notify_one();
  }

  /// Takes the earliest task; false when there is none now.
  bool try_pop(Task& task) { return tasks_.try_pop(task); }

  /// Takes the earliest task, waiting for one; false when the queue was stopped.
  bool pop(Task& task) {
    if (stopped()) return false;
    if (try_pop(task)) return true;
    MutexLock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    bool found = false;
    while (!stopped() && !(found = try_pop(task))) awake_.wait(lock);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return found;
  }

  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  /// Makes every `pop`, running or to come, return false. Tasks left are dropped with the queue.
  void stop() {
    const MutexLock lock(mutex_);
    stopped_.store(true, std::memory_order_release);
    awake_.notify_all();
  }

 private:
  // The standard allocator, which ThreadSanitizer understands: memory that TBB's own hands from one queue to
  // another looks like a race.
  tbb::concurrent_priority_queue<Task, Later, std::allocator<Task>> tasks_;
  std::atomic<int> sleepers_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  CondVar awake_;
};

}  // namespace h5feed
