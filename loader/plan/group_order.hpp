// SPDX-License-Identifier: Apache-2.0
// An order of samples grouped by chunk: for a subset, the chunks of one rank, or chunks of unequal height.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/row_layout.hpp"
#include "h5feed/options.hpp"
#include "plan/permutation.hpp"
#include "plan/sample_order.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// The participating samples of one chunk.
struct ChunkGroup {
  std::uint64_t chunk = 0;
  std::uint64_t first = 0;  ///< First sample; with a subset, the index of that sample in the sorted subset
  /// Number of samples, at least 1.
  std::uint64_t count = 0;
};

/// Returns the group of all samples of `chunk` < `layout.num_chunks()`.
ChunkGroup whole_chunk(const RowLayout& layout, std::uint64_t chunk) noexcept;

/// Returns the groups of `subset`, or of all samples if it is null, in file order. Throws std::bad_alloc.
std::vector<ChunkGroup> chunk_groups(const RowLayout& layout, const SampleSubset* subset);

/// Delivers groups in file order, or with all their samples permuted, or permuted within windows of K groups.
/// O(groups) memory; O(log groups) per sample. The order is part of the public contract: golden vectors in
/// the tests pin it.
class GroupOrder final : public SampleOrder {
 public:
  /// The groups are not empty and belong to distinct chunks. The permutations depend on `key` alone.
  GroupOrder(std::vector<ChunkGroup> groups, std::shared_ptr<const SampleSubset> subset, RowLayout layout,
             const Shuffle& shuffle, std::uint64_t key);

  std::uint64_t size() const noexcept override { return begins_.back(); }
  std::uint64_t at(std::uint64_t position) const noexcept override;
  std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept override;
  std::uint64_t chunks_before(std::uint64_t position) const noexcept override;
  std::uint64_t chunk_in_order(std::uint64_t place) const noexcept override { return groups_[place].chunk; }

 private:
  std::size_t group_at(std::uint64_t row) const noexcept;
  // The groups [first, end), whose samples are permuted together.
  struct Window {
    std::size_t first;
    std::size_t end;
    std::uint64_t key;
  };
  Window window_of(std::size_t group) const noexcept;

  std::vector<ChunkGroup> groups_;     // in the order in which the epoch needs them
  std::vector<std::uint64_t> begins_;  // rows before each group; last: all rows
  // (chunk, index in `groups_`), sorted by chunk.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places_;
  std::shared_ptr<const SampleSubset> subset_;
  RowLayout layout_;
  Shuffle::Kind kind_;
  std::size_t window_groups_;
  std::uint64_t key_;
};

}  // namespace h5feed
