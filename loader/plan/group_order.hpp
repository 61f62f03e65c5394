// Samples that come in groups, one for every chunk: a subset of the samples, or the chunks of one rank.
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

/// The samples of one chunk that take part.
struct ChunkGroup {
  std::uint64_t chunk = 0;
  std::uint64_t first = 0;  ///< its first sample; with a subset, the place of that in ascending order
  std::uint64_t count = 0;
};

/// The groups of `subset`, or of all samples where that is null, in file order.
std::vector<ChunkGroup> chunk_groups(const RowLayout& layout, const SampleSubset* subset);

/// Groups in file order, all their samples permuted, or permuted within windows of K groups. O(groups)
/// memory, O(log groups) a sample. The order is part of the public contract: golden vectors in the tests
/// pin it.
class GroupOrder final : public SampleOrder {
 public:
  /// `groups` are of distinct chunks and not empty; `key` decides the permutations.
  GroupOrder(std::vector<ChunkGroup> groups, std::shared_ptr<const SampleSubset> subset, RowLayout layout,
             const Shuffle& shuffle, std::uint64_t key);

  std::uint64_t size() const noexcept override { return begins_.back(); }
  std::uint64_t at(std::uint64_t position) const noexcept override;
  std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept override;
  std::uint64_t chunks_before(std::uint64_t position) const noexcept override;
  std::uint64_t chunk_in_order(std::uint64_t place) const noexcept override { return groups_[place].chunk; }

 private:
  std::size_t group_at(std::uint64_t row) const noexcept;
  // Groups whose samples are permuted together: [first, end).
  struct Window {
    std::size_t first;
    std::size_t end;
    std::uint64_t key;
  };
  Window window_of(std::size_t group) const noexcept;

  std::vector<ChunkGroup> groups_;                               // in the order in which the epoch needs them
  std::vector<std::uint64_t> begins_;                            // rows before each group, and of all
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places_;  // chunk → place in `groups_`, by chunk
  std::shared_ptr<const SampleSubset> subset_;
  RowLayout layout_;
  Shuffle::Kind kind_;
  std::size_t window_groups_;
  std::uint64_t key_;
};

}  // namespace h5feed
