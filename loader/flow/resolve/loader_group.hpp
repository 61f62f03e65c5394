// SPDX-License-Identifier: Apache-2.0
// The cache and memory account that the loaders of one opened dataset share.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "base/mutex.hpp"
#include "base/spare_memory.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"

namespace h5feed {

/// Memory of one loader, or of several together, in bytes.
struct MemoryUse {
  std::uint64_t own_bytes = 0;     ///< Batches in preparation, chunks being read, a cache that is not shared
  std::uint64_t cache_bytes = 0;   ///< Requested capacity of the shared cache; the largest applies
  std::uint64_t decode_bytes = 0;  ///< Chunks decoded concurrently into the shared cache
  std::uint64_t budget_bytes = 0;  ///< `memory_budget_bytes`; the largest applies
  /// Fields held in memory as a whole. The dataset owns one copy of them, so the largest counts.
  std::uint64_t resident_bytes = 0;
};

/// The chunk cache of the policy `lru`, as large as the largest request of its loaders, and the memory that
/// each loader takes. Loaders own the group and the dataset keeps a weak_ptr, so it ends with the last
/// loader. Thread-safe.
class LoaderGroup {
 public:
  /// Returns the group of the dataset's loaders; creates it if there is none. Subsets share the group of
  /// their dataset. Throws std::bad_alloc.
  static std::shared_ptr<LoaderGroup> of(const DatasetState& dataset);

  LoaderGroup() : cache_(0) {}
  LoaderGroup(const LoaderGroup&) = delete;
  LoaderGroup& operator=(const LoaderGroup&) = delete;

  /// Membership of one loader. Removes the loader's memory from the group's account on destruction. Must not
  /// outlive the group.
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

  /// Adds a loader that takes the memory returned by `decide`, which is told what the other members take.
  /// Calls `decide` under the lock, one loader at a time, so two cannot count on the same memory. Rethrows
  /// what `decide` throws, without adding the loader. Throws std::bad_alloc. The group must outlive the
  /// membership.
  std::unique_ptr<Membership> join(const std::function<MemoryUse(const MemoryUse& others)>& decide)
      H5FEED_EXCLUDES(mutex_);

  /// Returns the shared cache, which the group owns.
  ChunkCache& cache() noexcept { return cache_; }

  /// Returns what the members leave of their budget, which the group owns.
  SpareMemory& spare() noexcept { return spare_; }

 private:
  void leave(std::list<MemoryUse>::iterator at) noexcept H5FEED_EXCLUDES(mutex_);
  MemoryUse together() const noexcept H5FEED_REQUIRES(mutex_);
  void share_out() noexcept H5FEED_REQUIRES(mutex_);

  ChunkCache cache_;
  SpareMemory spare_;
  Mutex mutex_;
  std::list<MemoryUse> members_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
