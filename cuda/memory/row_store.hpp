// SPDX-License-Identifier: Apache-2.0
// Samples that stay in GPU memory once they were copied there.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "batch/device.hpp"
#include "cuda/memory/device_memory.hpp"
#include "cuda/memory/row_table.hpp"
#include "cuda/memory/stream_readers.hpp"
#include "cuda/runtime/check.hpp"
#include "h5feed/options.hpp"

namespace h5feed::gpu {

/// Rows of one GPU's memory, one for each sample that is kept, as it was copied. Memory is taken in blocks as
/// samples come, up to the size asked for, and at most until a sixteenth of the device's memory is left free
/// for the rest of the program.
///
/// Once all rows are taken, a sample that is foreseen to come again replaces one that is not, as far as the
/// running epoch and the next one tell. With several ranks these are the samples that go to another rank;
/// with one rank and all samples in every epoch there are none, and the first samples stay, which no choice
/// surpasses (RowTable).
///
/// Rows are written on the stream of the copies and read by kernels on other streams. A row is replaced when
/// no batch has to enqueue a kernel for it any more, and after the stream of the copies was made to wait for
/// the kernels that are enqueued. The host waits for neither.
///
/// If the device runs short of memory, or the loader itself cannot allocate, blocks are freed, the newest
/// first, which waits for the device, and no more are taken. Rows that planned batches have still to read are
/// saved to host memory. A block whose addresses a copied batch uses stays until that batch is delivered.
/// Thread-safe.
class RowStore {
 public:
  /// Settings of a store.
  struct Settings {
    int device = 0;
    std::size_t row_bytes = 0;  ///< Bytes of one sample as copied
    std::uint64_t samples =
        0;  ///< Number of samples there are; the store takes no more memory than they need
    /// Stream of the copies that fill `rows` of `keep`; rows are written on it.
    cudaStream_t copies = nullptr;
    GpuCacheBytes size;    ///< "auto": all that is free after the first batches
    Foresee foresee = {};  ///< Empty: no sample is ever due, and the first ones stay
  };
  /// Rows of the samples of a batch, null where a sample is not kept. To be destroyed when the kernels that
  /// read them are enqueued and recorded by `read_on`, or will not be.
  using Rows = std::vector<KeptRow>;

  RowStore(const Settings& settings, std::shared_ptr<MemoryLedger> ledger);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;
  ~RowStore();

  /// Returns the rows of samples; null if none of them is kept. Does not block. Throws std::bad_alloc.
  std::shared_ptr<Rows> find(std::span<const std::int64_t> samples) const H5FEED_EXCLUDES(mutex_);
  /// Returns whether a sample is kept.
  bool holds(std::int64_t sample) const H5FEED_EXCLUDES(mutex_);

  /// Records that the kernels enqueued on `stream` so far read rows that `find` returned. Requires the device
  /// to be current. Throws CudaError.
  void read_on(cudaStream_t stream, const CallPlace& place) H5FEED_EXCLUDES(readers_mutex_);

  /// Keeps those of the samples that are not kept yet and are worth it: enqueues copies from `rows`, device
  /// memory that holds the samples one after the other, on the stream of the copies. `end_turn` is one past
  /// the turns of their batch; `served` are the other samples of the batch. Rows that `find` returns from
  /// then on are complete for work that waits for a later event of that stream. Requires the device to be
  /// current. Throws CudaError, std::bad_alloc; running out of device memory only ends the growth.
  void keep(std::span<const std::int64_t> samples, std::span<const std::int64_t> served,
            std::uint64_t end_turn, const std::byte* rows, const CallPlace& place)
      H5FEED_EXCLUDES(fill_mutex_, readers_mutex_, mutex_);

  /// Counts a delivered batch, `served` of whose samples were kept rows. From time to time looks at the free
  /// memory of the device, and gives blocks back if there is too little. Requires the device to be current.
  void delivered(std::size_t served) noexcept H5FEED_EXCLUDES(fill_mutex_, mutex_);

  /// Frees a block and ends the growth; returns false if none could be freed. Then the newest block is freed
  /// with the last batch that uses it. Requires the device to be current. Throws CudaError, std::bad_alloc.
  bool give_back() H5FEED_EXCLUDES(fill_mutex_, mutex_);
  /// Frees blocks and ends the growth if less than half the reserve of the device's memory is free, until all
  /// of it is; blocks that copied batches use are freed with the last of these. Does nothing if the device
  /// has failed.
  void keep_memory_free() noexcept H5FEED_EXCLUDES(fill_mutex_, mutex_);

  /// Rows of delivered batches that were served.
  std::uint64_t served() const noexcept { return served_.load(std::memory_order_relaxed); }
  /// Bytes of all blocks now.
  std::uint64_t bytes() const H5FEED_EXCLUDES(mutex_);

 private:
  // A sample of a batch that is not kept, by its number in the batch.
  struct Newcomer {
    std::size_t number = 0;
    bool due = false;
  };

  void open(std::uint64_t bytes) H5FEED_REQUIRES(fill_mutex_);
  std::vector<Newcomer> not_kept(std::span<const std::int64_t> samples) const H5FEED_EXCLUDES(mutex_);
  void mark(std::span<const std::int64_t> samples, std::uint64_t after) H5FEED_REQUIRES(fill_mutex_)
      H5FEED_EXCLUDES(mutex_);
  void foresee(std::span<const std::int64_t> samples, std::span<const std::int64_t> served,
               std::uint64_t end_turn, std::vector<Newcomer>& newcomers) H5FEED_REQUIRES(fill_mutex_)
      H5FEED_EXCLUDES(mutex_);
  RowTable::Claim claim(std::vector<Newcomer>& newcomers) H5FEED_REQUIRES(fill_mutex_)
      H5FEED_EXCLUDES(mutex_);
  bool make_room(std::size_t rows, const CallPlace& place) H5FEED_REQUIRES(fill_mutex_)
      H5FEED_EXCLUDES(mutex_);
  bool grow(const CallPlace& place) H5FEED_REQUIRES(fill_mutex_) H5FEED_EXCLUDES(mutex_);
  void write(const RowTable::Claim& claim, std::span<const Newcomer> newcomers, const std::byte* rows,
             const CallPlace& place) H5FEED_REQUIRES(fill_mutex_) H5FEED_EXCLUDES(readers_mutex_, mutex_);
  void open_automatically() noexcept H5FEED_EXCLUDES(fill_mutex_);
  std::uint64_t free_block() H5FEED_REQUIRES(fill_mutex_) H5FEED_EXCLUDES(mutex_);
  std::uint64_t retired_bytes() H5FEED_REQUIRES(fill_mutex_);
  std::uint64_t retire_block() H5FEED_REQUIRES(fill_mutex_) H5FEED_EXCLUDES(mutex_);

  const Settings settings_;
  const std::shared_ptr<MemoryLedger> ledger_;
  const std::size_t pitch_;  // bytes from one row to the next
  std::atomic<std::uint64_t> served_ = 0;
  std::atomic<std::uint64_t> deliveries_ = 0;

  // Held over calls of CUDA: one thread at a time takes and gives back memory, and replaces rows.
  Mutex fill_mutex_;
  bool growing_ H5FEED_GUARDED_BY(fill_mutex_) = false;
  std::uint64_t left_ H5FEED_GUARDED_BY(fill_mutex_) = 0;       // bytes that may still be taken
  std::uint64_t rows_left_ H5FEED_GUARDED_BY(fill_mutex_) = 0;  // rows that may still be taken
  std::vector<std::weak_ptr<RowBlock>> retired_ H5FEED_GUARDED_BY(fill_mutex_);
  std::uint64_t block_bytes_ H5FEED_GUARDED_BY(fill_mutex_) = 0;
  std::uint64_t foreseen_end_ H5FEED_GUARDED_BY(fill_mutex_) = 0;  // `Foreseen::end` when last asked
  // Kernels may still read rows that were replaced, and the stream of the copies does not wait for them yet.
  bool must_wait_ H5FEED_GUARDED_BY(fill_mutex_) = false;

  Mutex readers_mutex_;
  StreamReaders readers_ H5FEED_GUARDED_BY(readers_mutex_);

  mutable Mutex mutex_;
  RowTable table_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed::gpu
