// SPDX-License-Identifier: Apache-2.0
// A block of GPU memory that is divided into rows, and the hold that a batch has on a row.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cuda/memory/device_memory.hpp"

namespace h5feed::gpu {

/// A block of device memory that is divided into rows. Its memory can be freed before the block is destroyed:
/// rows that planned batches have still to read are saved to host memory then.
class RowBlock {
 public:
  /// State of a row that is or was in use.
  struct Row {
    std::int64_t sample = 0;
    std::atomic<std::uint32_t> users = 0;  ///< Batches that still have to read the row
  };

  /// Allocates `count` rows, `distance` bytes apart. Throws CudaError, std::bad_alloc.
  RowBlock(std::size_t count, std::size_t distance, const CallPlace& place,
           std::shared_ptr<MemoryLedger> ledger)
      : pitch(distance),
        num_rows(count),
        num_bytes(aligned_for_device(count * distance)),
        memory_(num_bytes, place, std::move(ledger)) {}

  /// Returns the address of a row on the device. Requires that the memory is not freed. Thread-safe.
  std::byte* address(std::uint32_t row) const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return memory_.get() + row * pitch;
  }

  /// Location of a row: on the device, or saved in host memory.
  struct Location {
    const std::byte* on_device = nullptr;  ///< Null if the memory is freed
    const std::byte* saved = nullptr;      ///< In host memory; null if the memory is not freed
  };
  /// Returns where a row is that has users. If it is on the device, its memory is not freed before `leave` is
  /// called as often as `enter`. Thread-safe.
  Location enter(std::uint32_t row) H5FEED_EXCLUDES(mutex_);
  /// Ends the use that `enter` began on the device. Thread-safe.
  void leave() noexcept H5FEED_EXCLUDES(mutex_);
  /// Returns whether addresses on the device are in use, as `enter` returned them. Thread-safe.
  bool entered() const H5FEED_EXCLUDES(mutex_);

  /// Saves the rows that have users, after the work enqueued on `stream`, and frees the memory, which waits
  /// for the device. Returns false, without effect, if addresses are in use. The block must not be in a table
  /// any more: no row gets further users. Requires the device to be current. Thread-safe. Throws CudaError
  /// and std::bad_alloc, without effect.
  bool free_memory(cudaStream_t stream, const CallPlace& place) H5FEED_EXCLUDES(mutex_);

  const std::size_t pitch;  ///< Bytes from one row to the next
  const std::size_t num_rows;
  const std::size_t num_bytes;
  std::deque<Row> rows;  ///< As many of `num_rows` as were in use; guarded by whoever guards the table

 private:
  mutable Mutex mutex_;
  CountedMemory memory_ H5FEED_GUARDED_BY(mutex_);
  std::size_t entered_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint32_t, std::vector<std::byte>> saved_ H5FEED_GUARDED_BY(mutex_);
};

/// A row that a batch reads: until the destruction of this object no sample replaces it. Move-only; null
/// after a move. May outlive the table.
class KeptRow {
 public:
  KeptRow() = default;
  /// Requires the guard of the table: the block may get further rows as soon as this returns.
  KeptRow(std::shared_ptr<RowBlock> block, std::uint32_t row) noexcept
      : block_(std::move(block)), row_(row), users_(&block_->rows[row].users) {
    users_->fetch_add(1, std::memory_order_relaxed);
  }
  KeptRow(KeptRow&& other) noexcept
      : block_(std::move(other.block_)),
        row_(other.row_),
        users_(other.users_),
        entered_(std::exchange(other.entered_, false)) {}
  KeptRow& operator=(KeptRow&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(row_, other.row_);
    std::swap(users_, other.users_);
    std::swap(entered_, other.entered_);
    return *this;
  }
  // The users are counted down with release order, so that whoever replaces the row afterwards knows of the
  // kernels that read it.
  ~KeptRow() {
    if (!block_) return;
    if (entered_) block_->leave();
    users_->fetch_sub(1, std::memory_order_release);
  }

  explicit operator bool() const noexcept { return block_ != nullptr; }
  /// Returns whether `enter` found the row on the device.
  bool entered() const noexcept { return entered_; }

  /// Returns where the row is. From then on, if it is on the device, its memory is not freed before this
  /// object is destroyed.
  RowBlock::Location enter() {
    const RowBlock::Location at = block_->enter(row_);
    if (at.on_device == nullptr) return at;
    if (std::exchange(entered_, true)) block_->leave();
    return at;
  }

 private:
  std::shared_ptr<RowBlock> block_;
  std::uint32_t row_ = 0;
  std::atomic<std::uint32_t>* users_ = nullptr;  // in `block_`, where rows keep their addresses
  bool entered_ = false;
};

}  // namespace h5feed::gpu
