// SPDX-License-Identifier: Apache-2.0
// Which sample is in which row of GPU memory, and which row the next sample replaces.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda/memory/row_block.hpp"

namespace h5feed::gpu {

/// The rows of all blocks by sample, and which of them hold a sample that is due: one that is foreseen to
/// come again. Free rows are used first; then a sample that is due replaces one that is not.
///
/// A sample that is due is never replaced, because that would serve no more: every sample comes once per
/// epoch, so whatever is served in an epoch was held when the epoch began, and no choice serves more samples
/// than there are rows. Which of the samples that are due stay makes no difference to the number, so the
/// first do: they are spread over the epoch, and nothing is copied in vain.
///
/// Not thread-safe; only `KeptRow` may be used and destroyed by any thread meanwhile.
class RowTable {
 public:
  /// Number of a row.
  struct Place {
    std::uint32_t block = 0;
    std::uint32_t row = 0;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  /// Rows that hold no sample and are in the hands of the caller.
  struct Claim {
    std::vector<Place> places;
    bool replaces = false;  ///< some of them held samples, which kernels may still read
  };

  /// Adds the rows of a block, all free. Throws std::bad_alloc.
  void add(std::shared_ptr<RowBlock> block) { blocks_.push_back(std::move(block)); }
  /// Removes the block added last, of those that no batch has entered, with its samples; null if there is
  /// none. No row of it may be claimed.
  std::shared_ptr<RowBlock> drop_newest_idle() noexcept;
  /// Removes the block added last with its samples; null if there is none. No row of it may be claimed.
  std::shared_ptr<RowBlock> drop_newest() noexcept;

  /// Number of samples in rows.
  std::size_t num_samples() const noexcept { return places_.size(); }
  /// Number of free rows.
  std::size_t num_free() const noexcept;
  /// Bytes of all blocks.
  std::uint64_t bytes() const noexcept;
  bool has_blocks() const noexcept;

  bool contains(std::int64_t sample) const { return places_.contains(sample); }
  /// Returns the row of a sample for a batch to read; null if there is none.
  KeptRow find(std::int64_t sample) const;
  std::byte* address(Place place) const;

  /// Returns rows for `samples` new samples, the first `due` of which are due: as many as may have one. What
  /// these rows held is forgotten. Throws std::bad_alloc; nothing is claimed then.
  Claim claim(std::size_t samples, std::size_t due);
  /// Notes that a claimed row holds `sample` now. Throws std::bad_alloc; the row is then still claimed.
  void put(Place place, std::int64_t sample, bool due);
  /// Makes a claimed row free.
  void release(Place place) noexcept { free_.push_back(place); }
  /// Notes whether a sample is due; has no effect if it is in no row. Throws std::bad_alloc.
  void mark(std::int64_t sample, bool due);

  /// Begins a tour of all rows.
  void begin_tour() noexcept { tour_ = {}; }
  /// Returns at most `most` further samples of the tour; none at its end. Throws std::bad_alloc.
  std::vector<std::int64_t> next_of_tour(std::size_t most);

 private:
  std::optional<Place> take_free();
  std::shared_ptr<RowBlock> drop(std::uint32_t number) noexcept;

  std::vector<std::shared_ptr<RowBlock>> blocks_;   // oldest first; null: removed
  std::unordered_map<std::int64_t, Place> places_;  // by sample
  std::set<Place> not_due_;                         // rows with samples that are not due
  std::vector<Place> free_;                         // rows that were in use; has room for those claimed
  std::size_t open_ = 0;                            // first block that may have rows that never were in use
  Place tour_;                                      // next row of the tour
};

}  // namespace h5feed::gpu
