// SPDX-License-Identifier: Apache-2.0
#include "store/index/index_walk.hpp"

#if !H5FEED_HAVE_CHUNK_ITER

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "store/format/byte_order.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/h5_metadata.hpp"

namespace h5feed {
namespace {

// Calls `meet` with the places of the chunks that a leaf of a version 1 B-tree lists; not for other metadata
// (HDF5 File Format Specification, "Version 1 B-trees").
template <typename Meet>
void meet_entries(std::span<const std::byte> node, std::size_t rank, std::size_t address_bytes,
                  const Meet& meet) {
  constexpr std::string_view kChunkLeaf("TREE\1\0", 6);
  constexpr std::size_t kCountAt = 6;
  const std::size_t first_key = 8 + 2 * address_bytes;
  const std::size_t key_bytes = 8 + 8 * (rank + 1);  // stored bytes, filter mask, place of the chunk
  if (node.size() < first_key || std::memcmp(node.data(), kChunkLeaf.data(), kChunkLeaf.size()) != 0) return;
  const std::uint64_t entries = little_endian(node.subspan(kCountAt, 2));
  std::array<hsize_t, H5S_MAX_RANK> offset = {};
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = first_key + i * (key_bytes + address_bytes);
    if (at + key_bytes > node.size()) return;
    for (std::size_t d = 0; d < rank; ++d) offset[d] = little_endian(node.subspan(at + 8 + 8 * d, 8));
    meet(std::span<const hsize_t>(offset).first(rank));
  }
}

}  // namespace

Candidates::Candidates(std::vector<std::uint64_t> chunks) : chunks_(std::move(chunks)) {
  std::ranges::sort(chunks_);
  chunks_.erase(std::unique(chunks_.begin(), chunks_.end()), chunks_.end());
  count_ = chunks_.size();
}

IndexWalk walk_index(const H5::H5File& file, const H5::DataSet& dataset, const DatasetInfo& info,
                     const ChunkIndex& index) {
  std::size_t address_bytes = 0;
  std::size_t length_bytes = 0;
  file_creation_properties(file).getSizes(address_bytes, length_bytes);
  EntryCheck check(info, index);
  std::vector<std::uint64_t> chunks;
  hsize_t met = 0;
  watch_metadata_reads(file, [&](std::span<const std::byte> node) {
    meet_entries(node, info.file_rank(), address_bytes, [&](std::span<const hsize_t> place) {
      ++met;
      if (const std::optional<std::uint64_t> chunk = check.meet(place)) chunks.push_back(*chunk);
    });
  });
  const H5::DataSpace space = dataset.getSpace();
  hsize_t listed = 0;
  const bool whole = H5Dget_num_chunks(dataset.getId(), space.getId(), &listed) >= 0;
  watch_metadata_reads(file, {});
  const bool met_all = info.index_kind == kVersion1Index && whole && met == listed;
  return {.whole = whole,
          .listed = listed,
          .candidates = met_all ? Candidates(std::move(chunks)) : Candidates(index.locations.size()),
          .misplaced = check.misplaced()};
}

}  // namespace h5feed

#endif
