// SPDX-License-Identifier: Apache-2.0
// Samples that stay in GPU memory once they were copied there.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "cuda/memory/device_memory.hpp"
#include "cuda/runtime/check.hpp"
#include "h5feed/options.hpp"

namespace h5feed::gpu {

/// Rows of one GPU's memory, one for each sample that is kept, as it was copied. Memory is taken in blocks as
/// samples come, up to the size asked for, and at most until a sixteenth of the device's memory is left free
/// for the rest of the program.
///
/// The first samples stay, and none replaces another. Where every epoch has the same order, no policy serves
/// more samples: each of them is used once per epoch, so that one served sample occupies a row for the whole
/// epoch. Where the order changes, a row whose sample comes soon after it was copied could be used more
/// often; here each kept row serves one sample of every epoch, or its share of them if ranks exchange their
/// samples.
///
/// If the device runs short of memory, or the loader itself cannot allocate, blocks go back, the newest
/// first, and no more are taken. Rows that are still to be read keep their block: it is freed, which waits
/// for the device, when the last of them is released. Thread-safe.
class RowStore {
 public:
  /// Settings of a store.
  struct Settings {
    int device = 0;
    std::size_t row_bytes = 0;  ///< Bytes of one sample as copied
    GpuCacheBytes size;         ///< "auto": all that is free after the first batches
  };
  /// Address of a row on the device, with a share in its block.
  using Row = std::shared_ptr<const std::byte>;
  /// Rows of the samples of a batch, null where a sample is not kept.
  using Rows = std::vector<Row>;

  RowStore(const Settings& settings, std::shared_ptr<MemoryLedger> ledger);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;
  ~RowStore();

  /// Returns the rows of samples; null if none of them is kept. Does not block. Throws std::bad_alloc.
  std::shared_ptr<const Rows> find(std::span<const std::int64_t> samples) const H5FEED_EXCLUDES(mutex_);
  /// Returns whether a sample is kept.
  bool holds(std::int64_t sample) const H5FEED_EXCLUDES(mutex_);

  /// Keeps those of the samples that are not kept yet, as far as there is room: enqueues copies from `rows`,
  /// device memory that holds the samples one after the other, on `stream`, which must be the same for all
  /// calls. Rows that `find` returns from then on are complete for work that waits for a later event of
  /// `stream`. Requires the device to be current. Throws CudaError, std::bad_alloc; running out of device
  /// memory only ends the growth.
  void keep(std::span<const std::int64_t> samples, const std::byte* rows, cudaStream_t stream,
            const CallPlace& place) H5FEED_EXCLUDES(fill_mutex_, mutex_);

  /// Counts a delivered batch, `served` of whose samples were kept rows. From time to time looks at the free
  /// memory of the device, and gives blocks back if there is too little. Requires the device to be current.
  void delivered(std::size_t served) noexcept H5FEED_EXCLUDES(fill_mutex_, mutex_);

  /// Gives the newest block back and ends the growth; returns false if there is none.
  bool give_back() H5FEED_EXCLUDES(fill_mutex_, mutex_);

  /// Rows of delivered batches that were served.
  std::uint64_t served() const noexcept { return served_.load(std::memory_order_relaxed); }
  /// Bytes of all blocks now.
  std::uint64_t bytes() const H5FEED_EXCLUDES(mutex_);

 private:
  struct Block {
    Block(std::size_t bytes, const CallPlace& place, std::shared_ptr<MemoryLedger> ledger);
    const CountedMemory memory;
    const std::size_t num_bytes;
    std::vector<std::int64_t> samples;  // in the order of its rows; guarded by the mutex of the store
  };
  struct Place {
    std::uint32_t block = 0;
    std::uint32_t row = 0;
  };

  void open(std::uint64_t bytes) H5FEED_REQUIRES(fill_mutex_);
  void look_at_memory() H5FEED_EXCLUDES(fill_mutex_, mutex_);
  std::vector<std::size_t> not_kept(std::span<const std::int64_t> samples) const H5FEED_EXCLUDES(mutex_);
  std::size_t room(const CallPlace& place) H5FEED_REQUIRES(fill_mutex_) H5FEED_EXCLUDES(mutex_);
  std::uint64_t drop_newest() H5FEED_REQUIRES(fill_mutex_) H5FEED_EXCLUDES(mutex_);

  const Settings settings_;
  const std::shared_ptr<MemoryLedger> ledger_;
  const std::size_t pitch_;  // bytes from one row to the next
  std::atomic<std::uint64_t> served_ = 0;
  std::atomic<std::uint64_t> deliveries_ = 0;

  // Held over calls of CUDA: one thread at a time takes and gives back memory.
  Mutex fill_mutex_;
  bool growing_ H5FEED_GUARDED_BY(fill_mutex_) = false;
  std::uint64_t left_ H5FEED_GUARDED_BY(fill_mutex_) = 0;  // bytes that may still be taken
  std::uint64_t block_bytes_ H5FEED_GUARDED_BY(fill_mutex_) = 0;
  std::size_t room_ H5FEED_GUARDED_BY(fill_mutex_) = 0;  // free rows of the newest block

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Block>> blocks_ H5FEED_GUARDED_BY(mutex_);
  std::unordered_map<std::int64_t, Place> places_ H5FEED_GUARDED_BY(mutex_);  // by sample
};

}  // namespace h5feed::gpu
