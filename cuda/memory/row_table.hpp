// SPDX-License-Identifier: Apache-2.0
// Which sample is in which row of GPU memory, and which row the next sample replaces.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/memory/device_memory.hpp"

namespace h5feed::gpu {

/// A block of device memory that is divided into rows.
struct RowBlock {
  /// State of a row that is or was in use.
  struct Row {
    std::int64_t sample = 0;
    std::uint64_t due = 0;                 ///< turn under which the row is filed
    std::atomic<std::uint32_t> users = 0;  ///< batches that still have to read the row
  };

  /// Allocates `count` rows, `distance` bytes apart. Throws CudaError, std::bad_alloc.
  RowBlock(std::size_t count, std::size_t distance, const CallPlace& place,
           std::shared_ptr<MemoryLedger> ledger)
      : pitch(distance),
        num_rows(count),
        num_bytes(aligned_for_device(count * distance)),
        memory(num_bytes, place, std::move(ledger)) {}

  const std::size_t pitch;  ///< bytes from one row to the next
  const std::size_t num_rows;
  const std::size_t num_bytes;
  const CountedMemory memory;
  std::deque<Row> rows;  ///< as many of `num_rows` as were in use; guarded by whoever guards the table
};

/// A row that a batch reads: until the destruction of this object no sample replaces it, and its memory is
/// not freed. Move-only; null after a move. May outlive the table.
class KeptRow {
 public:
  KeptRow() = default;
  KeptRow(const std::shared_ptr<RowBlock>& block, std::uint32_t row)
      : address_(block, block->memory.get() + row * block->pitch), users_(&block->rows[row].users) {
    users_->fetch_add(1, std::memory_order_relaxed);
  }
  KeptRow(KeptRow&& other) noexcept
      : address_(std::move(other.address_)), users_(std::exchange(other.users_, nullptr)) {}
  KeptRow& operator=(KeptRow&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(users_, other.users_);
    return *this;
  }
  // Released, so that whoever replaces the row afterwards knows of the kernels that read it.
  ~KeptRow() {
    if (users_ != nullptr) users_->fetch_sub(1, std::memory_order_release);
  }

  explicit operator bool() const noexcept { return address_ != nullptr; }
  /// Address on the device.
  const std::byte* get() const noexcept { return address_.get(); }

 private:
  std::shared_ptr<const std::byte> address_;  // with a share in the block
  std::atomic<std::uint32_t>* users_ = nullptr;
};

/// The rows of all blocks by sample, and by the turn at which their sample is due (see DueTurns). Free rows
/// are used first; then the sample that is due last is replaced, by one that is due sooner: as Belady's
/// algorithm, so that no choice would serve more as far as the turns are known. Samples that are due never
/// neither replace another nor each other.
///
/// A row stays filed under its turn when that has passed, until it is asked for by `outdated` and filed
/// again. Not thread-safe; only `KeptRow` may be used and destroyed by any thread meanwhile.
class RowTable {
 public:
  /// Number of a row.
  struct Place {
    std::uint32_t block = 0;
    std::uint32_t row = 0;
    auto operator<=>(const Place&) const = default;
  };
  /// Rows that hold no sample and are in the hands of the caller.
  struct Claim {
    std::vector<Place> places;
    bool replaces = false;  ///< some of them held samples, which kernels may still read
  };
  /// A sample and the row that holds it.
  struct Entry {
    Place place;
    std::int64_t sample = 0;
  };

  /// Adds the rows of a block, all free. Throws std::bad_alloc.
  void add(std::shared_ptr<RowBlock> block) { blocks_.push_back(std::move(block)); }
  /// Removes the block added last with its samples; null if there is none. No row of it may be claimed.
  std::shared_ptr<RowBlock> drop_newest() noexcept;

  /// Number of samples in rows.
  std::size_t num_samples() const noexcept { return places_.size(); }
  /// Number of free rows.
  std::size_t num_free() const noexcept;
  /// Bytes of all blocks.
  std::uint64_t bytes() const noexcept;
  bool has_blocks() const noexcept { return !blocks_.empty(); }

  bool contains(std::int64_t sample) const { return places_.contains(sample); }
  /// Returns the row of a sample for a batch to read; null if there is none.
  KeptRow find(std::int64_t sample) const;
  std::byte* address(Place place) const noexcept;

  /// Returns rows for the first of the samples that are due at the turns `due`, which ascend: as many as may
  /// have one. What these rows held is forgotten. Throws std::bad_alloc; nothing is claimed then.
  Claim claim(std::span<const std::uint64_t> due);
  /// Files a claimed row that holds `sample` now. Throws std::bad_alloc; the row is then still claimed.
  void put(Place place, std::int64_t sample, std::uint64_t due);
  /// Makes a claimed row free.
  void release(Place place) noexcept { free_.push_back(place); }

  /// Returns at most `most` rows whose turn is before `past`, or, once for every value of `end`, is never.
  std::vector<Entry> outdated(std::uint64_t past, std::uint64_t end, std::size_t most);
  /// Files a row that holds a sample under another turn. Throws std::bad_alloc.
  void file_again(Place place, std::uint64_t due);

 private:
  using Filed = std::pair<std::uint64_t, Place>;  // turn and row

  RowBlock::Row& row(Place place) const noexcept { return blocks_[place.block]->rows[place.row]; }
  std::optional<Place> take_free();

  std::vector<std::shared_ptr<RowBlock>> blocks_;
  std::unordered_map<std::int64_t, Place> places_;  // by sample
  std::set<Filed> filed_;                           // all rows that hold a sample
  std::vector<Place> free_;                         // rows that were in use; has room for those claimed
  std::size_t open_ = 0;                            // first block that may have rows that never were in use
  // For this value of `end`, `outdated` has returned the rows due never that are before `unseen_`, or all.
  std::uint64_t end_ = 0;
  Place unseen_;
  bool all_seen_ = true;
};

}  // namespace h5feed::gpu
