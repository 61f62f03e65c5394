// SPDX-License-Identifier: Apache-2.0
#include "store/index/entry_check.hpp"

#include <algorithm>

namespace h5feed {

std::optional<std::uint64_t> chunk_at(std::span<const hsize_t> offset, const ChunkIndex& index,
                                      const DatasetInfo& info) {
  std::uint64_t chunk = 0;
  for (std::size_t d = 0; d < offset.size(); ++d) {
    const std::uint64_t coordinate = offset[d] / info.chunk_shape[d];
    if (coordinate >= index.grid[d]) return std::nullopt;
    chunk = chunk * index.grid[d] + coordinate;
  }
  return chunk;
}

EntryCheck::EntryCheck(const DatasetInfo& info, const ChunkIndex& index)
    : info_(info), index_(index), in_order_(info.index_kind == kVersion1Index) {}

std::optional<std::uint64_t> EntryCheck::meet(std::span<const hsize_t> offset) {
  const std::optional<std::uint64_t> chunk = chunk_at(offset, index_, info_);
  const bool follows = !in_order_ || last_.empty() || std::ranges::lexicographical_compare(last_, offset);
  last_.assign(offset.begin(), offset.end());
  if ((!chunk || !follows) && misplaced_.count++ == 0)
    misplaced_.example.assign(offset.begin(), offset.end());
  return chunk;
}

}  // namespace h5feed
