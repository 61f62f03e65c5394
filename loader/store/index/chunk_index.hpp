// SPDX-License-Identifier: Apache-2.0
// Index of the positions of all chunks of a dataset in its file.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "h5feed/error.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Position of one stored chunk.
struct ChunkLocation {
  /// `address` of a chunk that is not stored.
  static constexpr std::uint64_t kUnallocated = ~std::uint64_t{0};
  /// `filter_mask` of a chunk to which no filter was applied.
  static constexpr std::uint32_t kAllFiltersSkipped = ~std::uint32_t{0};

  std::uint64_t address = kUnallocated;  ///< Absolute offset in the file, user block included
  std::uint64_t stored_bytes = 0;        ///< Bytes in the file, after the filters
  std::uint32_t filter_mask = 0;         ///< Bit i set: filter i of the pipeline was skipped

  /// Returns whether the chunk is stored.
  bool allocated() const noexcept { return address != kUnallocated; }
};

template <>
struct WireMembers<ChunkLocation> {
  static constexpr bool plain = true;
};

/// Result or error message of `chunk_locations`, as it is sent between processes.
struct SentLocations {
  std::vector<ChunkLocation> locations;
  std::string damage;      ///< Message of a DamagedChunkIndex; empty if there was none
  std::string unreadable;  ///< Message of an UnreadableChunkIndex; empty if there was none
};

template <>
struct WireMembers<SentLocations> {
  static auto of(auto& v) { return std::tie(v.locations, v.damage, v.unreadable); }
};

/// Chunk grid of a dataset in row-major order. Immutable once built, hence thread-safe.
struct ChunkIndex {
  std::vector<std::uint64_t> grid;       ///< Chunks along each dimension
  std::vector<ChunkLocation> locations;  ///< One location per chunk of the grid
};

/// Thrown if the index gives wrong values: two chunks share bytes of the file, or the index lists chunks that
/// the dataset does not have while chunks of the dataset are missing in it. libhdf5 returns fill values for
/// the missing ones.
class DamagedChunkIndex : public FileError {
 public:
  using FileError::FileError;
};

/// Returns whether a grid of so many chunks, in a file of so many bytes, has too many to list: most of them
/// cannot be stored.
bool too_many_to_list(std::uint64_t chunks, std::uint64_t file_bytes) noexcept;

/// Returns the positions of all chunks of a chunked dataset as its index gives them, one per chunk of the
/// grid: the first step of `build_chunk_index`, which checks them. Holds the HDF5 mutex. Throws as that.
std::vector<ChunkLocation> chunk_locations(const H5File& file, const DatasetInfo& info);

/// Returns the positions of all chunks of a chunked dataset, listed by H5Dchunk_iter if the library has it
/// (1.10.10, 1.12.3, 1.14 and later), else by a recording file driver (recording_driver.hpp). Unfiltered edge
/// chunks get `kAllFiltersSkipped`. Chunks beyond the extent, which an old library may have left in the
/// index, are ignored unless chunks of the dataset are missing. Beside a SWMR writer, which may have been
/// killed while it wrote to the index, the chunks behind the first part that cannot be read are given as not
/// allocated. Holds the HDF5 mutex. Throws DamagedChunkIndex; only B-trees are searched for chunks out of
/// place. Throws UnreadableChunkIndex (index_damage.hpp) if libhdf5 cannot list the chunks, or if a chunk has
/// no bytes or bytes outside the file; FileError if there are too many to list (an index of version 1 is
/// checked even then).
ChunkIndex build_chunk_index(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
