// SPDX-License-Identifier: Apache-2.0
// Read buffers for the chunks that may be decoded at once.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// A fixed number of `ReadScratch`: its size is the bound on concurrent decodes. Thread-safe.
class ScratchPool {
 public:
  /// `count` ≥ 1.
  explicit ScratchPool(std::size_t count) : idle_(count) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Gives its scratch back on destruction.
  class Lease {
   public:
    Lease(ScratchPool& pool, ReadScratch scratch) : pool_(pool), scratch_(std::move(scratch)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.give_back(std::move(scratch_)); }
    ReadScratch& operator*() noexcept { return scratch_; }

   private:
    ScratchPool& pool_;
    ReadScratch scratch_;
  };

  /// Waits while all are in use. Their holders read and decode and wait for nothing else of ours, so
  /// one comes back.
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
