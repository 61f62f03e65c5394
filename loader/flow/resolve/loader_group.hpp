// SPDX-License-Identifier: Apache-2.0
// What the loaders of one opened dataset share.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "base/mutex.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"

namespace h5feed {

/// Memory that a loader takes, or several together, in bytes. Fields that are held whole are not in it: the
/// dataset has them once.
struct MemoryUse {
  std::uint64_t own_bytes = 0;     ///< batches in preparation, chunks being read, a cache of its own
  std::uint64_t cache_bytes = 0;   ///< capacity of the shared cache that it asks for; the largest counts
  std::uint64_t decode_bytes = 0;  ///< chunks it may decode into the shared cache at once
  std::uint64_t budget_bytes = 0;  ///< `memory_budget_bytes`; the largest counts
};

/// The chunk cache of the policy `lru`, as large as the largest of its loaders asks, and who takes how much
/// memory. Loaders hold it, the dataset only knows it: it goes with the last of them. Thread-safe.
class LoaderGroup {
 public:
  /// The group of a dataset's loaders; a new one where there is none. Subsets have the group of their
  /// dataset.
  static std::shared_ptr<LoaderGroup> of(const DatasetState& dataset);

  LoaderGroup() : cache_(0) {}
  LoaderGroup(const LoaderGroup&) = delete;
  LoaderGroup& operator=(const LoaderGroup&) = delete;

  /// Takes its loader's memory out of the group's account on destruction.
  class Membership {
   public:
    ~Membership();
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

   private:
    friend class LoaderGroup;
    Membership(LoaderGroup& group, std::list<MemoryUse>::iterator at) : group_(group), at_(at) {}
    LoaderGroup& group_;
    std::list<MemoryUse>::iterator at_;
  };

  /// Lets a loader decide what it takes, told what the others take; one loader at a time, so that two cannot
  /// count on the same memory. What `decide` throws passes through, and nothing has changed then. The group
  /// outlives the membership.
  std::unique_ptr<Membership> join(const std::function<MemoryUse(const MemoryUse& others)>& decide)
      H5FEED_EXCLUDES(mutex_);

  ChunkCache& cache() noexcept { return cache_; }

 private:
  void leave(std::list<MemoryUse>::iterator at) noexcept H5FEED_EXCLUDES(mutex_);
  MemoryUse together() const noexcept H5FEED_REQUIRES(mutex_);

  ChunkCache cache_;
  Mutex mutex_;
  std::list<MemoryUse> members_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
