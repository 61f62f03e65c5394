// SPDX-License-Identifier: Apache-2.0
// Chunk indexes of newer files, as far as libhdf5 computes sizes and the ends of its loops from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/format/object_header.hpp"

namespace h5feed {

/// A chunked dataset as its file and its object header describe it: filters and extents, without the layout
/// of its chunks.
struct ChunkedData {
  bool filtered = false;                    ///< The chunks have filters
  std::vector<std::uint64_t> extents = {};  ///< Largest of each dimension, now or ever; empty if not known
  bool may_grow = false;                    ///< A SWMR writer may have the file open, which then may grow
};

/// Returns what is wrong with the chunk index of a layout message of version 4, whose contents are `layout`:
/// with a B-tree, see `new_tree_damage` (new_tree.hpp), or with the header of an array of chunks. libhdf5
/// visits as many elements as an array claims, takes their size from it, and reads the elements of all chunks
/// of the dataset. Likewise of a dataset of several chunks whose index is for a single one, and of chunks
/// without an index, which lie behind each other, that go beyond the file. Empty if nothing is, or if there
/// is no such index. Throws FileError if the source cannot be read.
std::string newer_index_damage(const MetadataBytes& bytes, std::span<const std::byte> layout,
                               const ChunkedData& data);

}  // namespace h5feed
