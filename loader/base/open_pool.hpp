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

/// Keeps at most `most_open` things open; others are opened again when they are needed. The one to be closed
/// is the first, in the order in which they were opened, that was not used since it was last passed over (the
/// "clock": Corbató, "A Paging Experiment with the Multics System", 1969), so that a use takes no lock that
/// others need. Thread-safe; what is in use stays alive when its turn to be closed comes.
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

    // Null where it was used since the last time, unless it has to be.
    std::shared_ptr<T> close(bool surely) const H5FEED_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (std::exchange(used_, false) && !surely) return nullptr;
      return std::move(thing_);
    }

    // What is open now: what another thread has opened before, or `opened`.
    std::shared_ptr<T> set(std::shared_ptr<T>& opened) const H5FEED_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (!thing_) thing_ = std::move(opened);
      used_ = true;
      return thing_;
    }

    const std::shared_ptr<OpenPool> pool_;
    const std::function<std::shared_ptr<T>()> open_;
    mutable Mutex mutex_;  // taken within the pool's, or alone
    mutable std::shared_ptr<T> thing_ H5FEED_GUARDED_BY(mutex_);
    mutable bool used_ H5FEED_GUARDED_BY(mutex_) = false;
    // Guarded by the pool's mutex; `opened_.end()` where it is closed.
    mutable typename Places::iterator place_ = pool_->no_place();
  };

  /// For tests.
  std::size_t num_open() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return opened_.size();
  }

 private:
  typename Slot::Places::iterator no_place() H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return opened_.end();
  }

  // `opened` is destroyed by the caller, after the lock, where another thread was faster.
  std::shared_ptr<T> keep(const Slot& slot, std::shared_ptr<T> opened) H5FEED_EXCLUDES(mutex_) {
    std::vector<std::shared_ptr<T>> closed;  // likewise
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

  const std::size_t most_open_;
  mutable Mutex mutex_;
  typename Slot::Places opened_ H5FEED_GUARDED_BY(mutex_);  // the last first
};

}  // namespace h5feed
