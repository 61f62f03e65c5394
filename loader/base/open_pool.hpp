// SPDX-License-Identifier: Apache-2.0
// A pool that bounds how many resources (files) are open at once.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace h5feed {

/// Keeps at most `most_open` resources open and reopens the others on demand. Evicts by the clock algorithm
/// (Corbató, "A Paging Experiment with the Multics System", 1969): in opening order, the first resource that
/// was not used since the clock last passed it. A use of an open resource therefore locks its slot only,
/// never the pool. Thread-safe. Users hold a shared_ptr: an evicted resource closes when its last user lets
/// go.
template <typename T>
class OpenPool {
 public:
  /// Requires `most_open` ≥ 1.
  explicit OpenPool(std::size_t most_open) : most_open_(most_open) {}
  OpenPool(const OpenPool&) = delete;
  OpenPool& operator=(const OpenPool&) = delete;

  /// Keeps at most `most_open` resources open from now on, at least 1; the others are closed with the next
  /// that is opened.
  void limit(std::size_t most_open) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    most_open_ = most_open;
  }

  /// Closes half of the open resources, those that were used last excepted, and returns whether there was
  /// one.
  bool close_half() H5FEED_EXCLUDES(mutex_) {
    std::vector<std::shared_ptr<T>> closed;  // destroyed after the lock is released
    const MutexLock lock(mutex_);
    const std::size_t left = opened_.size() / 2;
    while (opened_.size() > left) closed.push_back(close_one());
    return !closed.empty();
  }

  /// Locks the pool until `release`, while the process forks: its copy in the child is then whole.
  void hold() {
    auto held = std::make_unique<MutexLock>(mutex_);
    held_ = std::move(held);
  }
  /// Ends `hold`, on the thread that called it or on its copy in a forked child.
  void release() { const auto held = std::move(held_); }

  /// One resource that the pool opens and closes. Neither copyable nor movable, because the pool keeps its
  /// address. Keeps the pool alive.
  class Slot {
   public:
    /// `open` returns the resource, never null, and may throw; it may run on several threads at once.
    Slot(std::shared_ptr<OpenPool> pool, std::function<std::shared_ptr<T>()> open)
        : pool_(std::move(pool)), open_(std::move(open)) {}
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { pool_->forget(*this); }

    /// Returns the resource, opening it first if it is closed; blocks meanwhile. Throws what `open` throws.
    /// Thread-safe.
    std::shared_ptr<T> get() const {
      if (std::shared_ptr<T> there = find()) return there;
      return pool_->keep(*this, open_());
    }

   private:
    friend class OpenPool;
    using Places = std::list<const Slot*>;

    std::shared_ptr<T> find() const H5FEED_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      used_ = true;
      return thing_;
    }

    // Takes the resource out, to be closed by the caller. Returns null and clears the mark if the slot was
    // used since the last call, unless `surely` is set.
    std::shared_ptr<T> close(bool surely) const H5FEED_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (std::exchange(used_, false) && !surely) return nullptr;
      return std::move(thing_);
    }

    // Returns the open resource: the one that another thread opened meanwhile, else `opened`.
    std::shared_ptr<T> set(std::shared_ptr<T>& opened) const H5FEED_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (!thing_) thing_ = std::move(opened);
      used_ = true;
      return thing_;
    }

    const std::shared_ptr<OpenPool> pool_;
    const std::function<std::shared_ptr<T>()> open_;
    mutable Mutex mutex_;  // locked alone or after the pool's mutex, never before it
    mutable std::shared_ptr<T> thing_ H5FEED_GUARDED_BY(mutex_);
    mutable bool used_ H5FEED_GUARDED_BY(mutex_) = false;
    // Guarded by the pool's mutex; `opened_.end()` if the resource is closed.
    mutable typename Places::iterator place_ = pool_->no_place();
  };

  /// Number of open resources. For tests.
  std::size_t num_open() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return opened_.size();
  }

 private:
  typename Slot::Places::iterator no_place() H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return opened_.end();
  }

  // Stores `opened` in the slot, or keeps the resource that another thread has stored meanwhile; `opened` is
  // then destroyed by the caller, outside the lock.
  std::shared_ptr<T> keep(const Slot& slot, std::shared_ptr<T> opened) H5FEED_EXCLUDES(mutex_) {
    std::vector<std::shared_ptr<T>> closed;  // destroyed after the lock is released
    const MutexLock lock(mutex_);
    if (slot.place_ == opened_.end()) slot.place_ = opened_.insert(opened_.begin(), &slot);
    std::shared_ptr<T> kept = slot.set(opened);
    while (opened_.size() > most_open_) closed.push_back(close_one());
    return kept;
  }

  std::shared_ptr<T> close_one() H5FEED_REQUIRES(mutex_) {
    for (std::size_t passed = 0;; ++passed) {
      const Slot& oldest = *opened_.back();
      if (std::shared_ptr<T> thing = oldest.close(passed >= opened_.size())) {
        opened_.pop_back();
        oldest.place_ = opened_.end();
        return thing;
      }
      opened_.splice(opened_.begin(), opened_, oldest.place_);
    }
  }

  void forget(const Slot& slot) H5FEED_EXCLUDES(mutex_) {
    std::shared_ptr<T> closed;
    const MutexLock lock(mutex_);
    if (slot.place_ == opened_.end()) return;
    closed = slot.close(true);
    opened_.erase(slot.place_);
  }

  mutable Mutex mutex_;
  std::unique_ptr<MutexLock> held_;  // Between hold() and release()
  std::size_t most_open_ H5FEED_GUARDED_BY(mutex_);
  typename Slot::Places opened_ H5FEED_GUARDED_BY(mutex_);  // most recently opened or passed over first
};

}  // namespace h5feed
