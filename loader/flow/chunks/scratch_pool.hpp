// SPDX-License-Identifier: Apache-2.0
// A pool of read buffers that bounds concurrent decodes.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// A fixed number of `ReadScratch`, the bound on concurrent decodes. Thread-safe.
class ScratchPool {
 public:
  /// Creates `count` ≥ 1 of them, which borrow from `spare`; it must outlive the pool.
  ScratchPool(std::size_t count, SpareMemory* spare) : idle_(count) {
    for (ReadScratch& scratch : idle_) scratch.spare = spare;
  }
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Owns one scratch and returns it to the pool on destruction. Move-only; must not outlive the pool.
  class Lease {
   public:
    Lease(ScratchPool& pool, ReadScratch scratch) : pool_(&pool), scratch_(std::move(scratch)) {}
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), scratch_(std::move(other.scratch_)) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (pool_ != nullptr) pool_->give_back(std::move(scratch_));
    }
    ReadScratch& operator*() noexcept { return scratch_; }

   private:
    ScratchPool* pool_;  // null once moved from
    ReadScratch scratch_;
  };

  /// Blocks while all are in use. Holders only read and decode, and wait for no lock or task of the loader
  /// but `SpareMemory`, which other decodes return, so one always returns.
  Lease acquire() H5FEED_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (idle_.empty()) returned_.wait(lock);
    ReadScratch scratch = std::move(idle_.back());
    idle_.pop_back();
    return {*this, std::move(scratch)};
  }

 private:
  void give_back(ReadScratch scratch) noexcept H5FEED_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      idle_.push_back(std::move(scratch));  // within the capacity reserved by the constructor
    }
    returned_.notify_one();
  }

  Mutex mutex_;
  CondVar returned_;
  std::vector<ReadScratch> idle_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
