// SPDX-License-Identifier: Apache-2.0
// Entries of a chunk index that lie where the dataset has no chunk.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/index/chunk_index.hpp"

namespace h5feed {

/// Chunks that an index lists where the dataset has none.
struct Misplaced {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> example = {};  ///< Offset of one of them in elements; empty if it is not known
};

/// Returns the number of the chunk at `offset`, in elements; nothing if the dataset has none there.
std::optional<std::uint64_t> chunk_at(std::span<const hsize_t> offset, const ChunkIndex& index,
                                      const DatasetInfo& info);

/// Meets the chunks of an index in the order in which it lists them. Keeps references to its arguments.
class EntryCheck {
 public:
  EntryCheck(const DatasetInfo& info, const ChunkIndex& index);

  /// Returns the number of the chunk at `offset`, in elements; nothing if the dataset has none there. Throws
  /// std::bad_alloc.
  std::optional<std::uint64_t> meet(std::span<const hsize_t> offset);

  /// Returns the chunks met so far that are out of place.
  const Misplaced& misplaced() const noexcept { return misplaced_; }

 private:
  const DatasetInfo& info_;
  const ChunkIndex& index_;
  const bool in_order_;  // As a version 1 B-tree has to list them for its chunks to be found
  std::vector<hsize_t> last_;
  Misplaced misplaced_;
};

}  // namespace h5feed
