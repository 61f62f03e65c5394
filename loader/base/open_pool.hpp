// A bound on how many of many things are open at once.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace h5feed {

/// Keeps the at most `most_open` things open that were used last; others are opened again when they are
/// needed. Thread-safe; what is in use stays alive when its turn to be closed comes.
template <typename T>
class OpenPool {
 public:
  /// `most_open` ≥ 1.
  explicit OpenPool(std::size_t most_open) : most_open_(most_open) {}
  OpenPool(const OpenPool&) = delete;
  OpenPool& operator=(const OpenPool&) = delete;

  /// One thing that the pool opens and closes. Neither copied nor moved: the pool knows its address.
  class Slot {
   public:
    /// `open` returns the thing, not null, and may throw; it may run on several threads at once.
    Slot(std::shared_ptr<OpenPool> pool, std::function<std::shared_ptr<T>()> open)
        : pool_(std::move(pool)), open_(std::move(open)) {}
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { pool_->forget(*this); }

    /// Blocks while it opens. Throws what `open` throws.
    std::shared_ptr<T> get() const {
      if (std::shared_ptr<T> there = pool_->find(*this)) return there;
      return pool_->keep(*this, open_());
    }

   private:
    friend class OpenPool;
    using Places = std::list<const Slot*>;
    const std::shared_ptr<OpenPool> pool_;
    const std::function<std::shared_ptr<T>()> open_;
    // Guarded by the pool's mutex.
    mutable std::shared_ptr<T> thing_;
    mutable typename Places::iterator place_;
  };

  /// For tests.
  std::size_t num_open() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return used_.size();
  }

 private:
  std::shared_ptr<T> find(const Slot& slot) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (slot.thing_) used_.splice(used_.begin(), used_, slot.place_);
    return slot.thing_;
  }

  std::shared_ptr<T> keep(const Slot& slot, std::shared_ptr<T> opened) H5FEED_EXCLUDES(mutex_) {
    std::vector<std::shared_ptr<T>> closed;  // after the lock is released
    const MutexLock lock(mutex_);
    if (slot.thing_) {  // another thread was faster
      closed.push_back(std::move(opened));
      return slot.thing_;
    }
    used_.push_front(&slot);
    slot.place_ = used_.begin();
    slot.thing_ = std::move(opened);
    while (used_.size() > most_open_) {
      closed.push_back(std::move(used_.back()->thing_));
      used_.pop_back();
    }
    return slot.thing_;
  }

  void forget(const Slot& slot) H5FEED_EXCLUDES(mutex_) {
    std::shared_ptr<T> closed;
    const MutexLock lock(mutex_);
    if (!slot.thing_) return;
    closed = std::move(slot.thing_);
    used_.erase(slot.place_);
  }

  const std::size_t most_open_;
  mutable Mutex mutex_;
  typename Slot::Places used_ H5FEED_GUARDED_BY(mutex_);  // the last used first
};

}  // namespace h5feed
