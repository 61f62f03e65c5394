// SPDX-License-Identifier: Apache-2.0
// Where every chunk of a dataset lies in its file.
#pragma once

#include <cstdint>
#include <vector>

#include "h5feed/error.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Place of one stored chunk.
struct ChunkLocation {
  static constexpr std::uint64_t kUnallocated = ~std::uint64_t{0};
  static constexpr std::uint32_t kAllFiltersSkipped = ~std::uint32_t{0};

  std::uint64_t address = kUnallocated;  ///< absolute offset in the file, user block included
  std::uint64_t stored_bytes = 0;
  std::uint32_t filter_mask = 0;  ///< bit i set: filter i of the pipeline was skipped

  bool allocated() const noexcept { return address != kUnallocated; }
};

/// The chunk grid of a dataset in row-major order; immutable and thread-safe.
struct ChunkIndex {
  std::vector<std::uint64_t> grid;       ///< chunks along each dimension
  std::vector<ChunkLocation> locations;  ///< product of `grid` entries
};

/// The index gives wrong values: two chunks share bytes of the file, or it names chunks that are not of the
/// dataset, while chunks of the dataset are missing in it, for which libhdf5 returns fill values.
class DamagedChunkIndex : public FileError {
 public:
  using FileError::FileError;
};

/// Lists all chunks of a chunked dataset: by H5Dchunk_iter where the library has it (1.14, 1.10.10,
/// 1.12.3 and later), else by a recording file driver (recording_driver.hpp). Unfiltered edge
/// chunks get a filter mask with every bit set. Holds the HDF5 mutex. Throws DamagedChunkIndex; FileError
/// where the chunks are too many to list (the index was then checked without keeping it), and its subclass
/// UnreadableChunkIndex (index_damage.hpp). Only an index of version 1, which has no checksums, is searched
/// for chunks out of place. Chunks beyond the extent, which an old library may have left there, are ignored
/// where none of the dataset is missing.
ChunkIndex build_chunk_index(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
