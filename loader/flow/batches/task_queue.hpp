// SPDX-License-Identifier: Apache-2.0
// The queue of tasks, earliest deadline first.
#pragma once

#include <tbb/concurrent_priority_queue.h>

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "base/mutex.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

/// An unbounded priority queue for many producers and consumers. `Later(a, b)` is true if `a` is due after
/// `b`. Pushing and popping take no mutex while there is work; only a worker that found the queue empty
/// sleeps on it. Thread-safe.
template <typename Task, typename Later>
class TaskQueue {
 public:
  /// Adds a task and wakes one sleeping worker, if any. Throws std::bad_alloc.
  void push(Task task) {
    tasks_.push(std::move(task));
    wake_one();
  }

  /// Does what `push` does; returns false, and drops the task, if there is no memory for it.
  bool try_push(Task task) noexcept {
    try {
      push(std::move(task));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  /// Records that a task was dropped for want of memory: one `take_lost` returns true, and until then every
  /// `pop` returns false. Wakes one sleeping worker, if any. Takes no memory.
  void note_lost() noexcept {
    lost_.store(true, std::memory_order_seq_cst);
    wake_one();
  }

  /// Returns whether tasks were dropped since the last call that returned true. The caller has to do them, or
  /// to queue them again.
  bool take_lost() noexcept { return lost() && lost_.exchange(false, std::memory_order_seq_cst); }

  /// Takes the earliest task. Returns false if the queue is empty. Does not block.
  bool try_pop(Task& task) { return tasks_.try_pop(task); }

  /// Takes the earliest task, blocking until there is one. Returns false once the queue is stopped, while a
  /// task is lost, or once `leave()` is true: it is asked before each look into the queue. Call `wake_all`
  /// after it has become true.
  template <typename Leave>
  bool pop(Task& task, const Leave& leave) {
    MutexLock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    bool found = false;
    while (!stopped() && !lost() && !leave() && !(found = try_pop(task))) awake_.wait(lock);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return found;
  }

  /// Takes the earliest task, blocking until there is one. Returns false once the queue is stopped, or while
  /// a task is lost.
  bool pop(Task& task) {
    if (stopped() || lost()) return false;
    return try_pop(task) || pop(task, [] { return false; });
  }

  /// Makes every sleeping worker look again: at the queue, and whether it is to leave.
  void wake_all() {
    const MutexLock lock(mutex_);
    awake_.notify_all();
  }

  /// Returns whether `stop` has been called.
  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  /// Throws Error if `stop` has been called.
  void throw_if_stopped() const {
    if (stopped()) throw Error("the loader is being closed");
  }

  /// Makes every `pop`, current or later, return false. Remaining tasks are destroyed with the queue.
  void stop() {
    const MutexLock lock(mutex_);
    stopped_.store(true, std::memory_order_release);
    awake_.notify_all();
  }

 private:
  bool lost() const noexcept { return lost_.load(std::memory_order_seq_cst); }

  void wake_one() {
    // A worker counts itself as a sleeper before its last look into the queue; a producer looks for sleepers
    // after its push. In one total order, so at least one of the two sees the other.
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    const MutexLock lock(mutex_);
    awake_.notify_one();
  }

  // Uses the standard allocator: ThreadSanitizer reports races in TBB's own, which hands memory from one
  // queue to another.
  tbb::concurrent_priority_queue<Task, Later, std::allocator<Task>> tasks_;
  std::atomic<int> sleepers_ = 0;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> lost_ = false;
  Mutex mutex_;
  CondVar awake_;
};

}  // namespace h5feed
