// SPDX-License-Identifier: Apache-2.0
// The bounded ring of jobs between workers and the consumer.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "flow/chunks/batch_job.hpp"

namespace h5feed {

/// Jobs in ticket order, from issue to delivery. The consumer adds and removes them; workers only mark them
/// complete. Completing a job that has left the ring, because its epoch was abandoned, has no effect.
/// Thread-safe.
class TicketRing {
 public:
  using Deadline = std::optional<Clock::time_point>;

  /// Returns the number of jobs in the ring. The consumer issues no job while it is at its limit.
  std::size_t size() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return slots_.size();
  }

  /// Returns the number of complete jobs in the ring.
  std::size_t num_complete() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(slots_, true, &Slot::complete));
  }

  /// Adds a job, whose ticket is higher than all in the ring.
  void push(std::shared_ptr<BatchJob> job) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    slots_.push_back({std::move(job), false});
  }

  /// Removes the job that was added last, which no task works on. Needs one.
  void drop_last() H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    slots_.pop_back();
  }

  /// Returns the first job whose ticket is at least `ticket`; null if there is none.
  std::shared_ptr<BatchJob> find_from(std::uint64_t ticket) const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto slot = std::ranges::find_if(slots_, [&](const Slot& s) { return s.job->ticket >= ticket; });
    return slot == slots_.end() ? nullptr : slot->job;
  }

  /// Marks a job complete. Called by the worker that finished the job's last task.
  void complete(const BatchJob& job) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (Slot& slot : slots_) {
      if (slot.job.get() == &job) slot.complete = true;
    }
    completed_.notify_one();
  }

  /// Puts `again` in the place of `job`, whose batch it prepares once more. Returns false and does nothing if
  /// `job` has left the ring.
  bool replace(const BatchJob& job, const std::shared_ptr<BatchJob>& again) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (Slot& slot : slots_) {
      if (slot.job.get() != &job) continue;
      slot.job = again;
      return true;
    }
    return false;
  }

  /// Returns the first job in ticket order; null if the ring is empty.
  std::shared_ptr<const BatchJob> front() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return slots_.empty() ? nullptr : slots_.front().job;
  }

  /// Removes and returns a complete job of `round`: only the first one in ticket order if `in_order`, else
  /// the earliest complete one. Null if there is none now. Does not block.
  std::shared_ptr<BatchJob> try_take(std::uint64_t round, bool in_order) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return take_complete(round, in_order);
  }

  /// Removes and returns the job that `try_take` would, blocking until there is one; null if `deadline`
  /// passes first. Without a deadline, blocks without limit.
  std::shared_ptr<BatchJob> take(std::uint64_t round, bool in_order, const Deadline& deadline)
      H5FEED_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (true) {
      if (auto job = take_complete(round, in_order)) return job;
      if (!deadline) {
        completed_.wait(lock);
      } else if (!completed_.wait_until(lock, *deadline)) {
        return take_complete(round, in_order);
      }
    }
  }

  /// Returns whether `try_take` would return a job now.
  bool is_complete(std::uint64_t round, bool in_order) const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return find_complete(round, in_order) != slots_.end();
  }

  /// Blocks until `try_take` would return a job, or until `deadline`; returns whether it would.
  bool wait(std::uint64_t round, bool in_order, Clock::time_point deadline) H5FEED_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (find_complete(round, in_order) == slots_.end()) {
      if (!completed_.wait_until(lock, deadline)) return find_complete(round, in_order) != slots_.end();
    }
    return true;
  }

  /// Removes all jobs and marks them as cancelled.
  void cancel_all() H5FEED_EXCLUDES(mutex_) {
    std::deque<Slot> slots;  // destroyed after the lock
    const MutexLock lock(mutex_);
    for (Slot& slot : slots_) slot.job->cancelled.store(true, std::memory_order_release);
    slots.swap(slots_);
  }

 private:
  struct Slot {
    std::shared_ptr<BatchJob> job;
    bool complete = false;
  };

  // Returns the slot that a consumer of `round` may take; the end if there is none now.
  std::deque<Slot>::const_iterator find_complete(std::uint64_t round, bool in_order) const
      H5FEED_REQUIRES(mutex_) {
    for (auto slot = slots_.begin(); slot != slots_.end() && slot->job->round == round; ++slot) {
      if (slot->complete) return slot;
      if (in_order) break;
    }
    return slots_.end();
  }

  std::shared_ptr<BatchJob> take_complete(std::uint64_t round, bool in_order) H5FEED_REQUIRES(mutex_) {
    const auto slot = find_complete(round, in_order);
    if (slot == slots_.end()) return nullptr;
    std::shared_ptr<BatchJob> job = slot->job;
    slots_.erase(slot);
    return job;
  }

  mutable Mutex mutex_;
  CondVar completed_;
  std::deque<Slot> slots_ H5FEED_GUARDED_BY(mutex_);  // in ticket order
};

}  // namespace h5feed
