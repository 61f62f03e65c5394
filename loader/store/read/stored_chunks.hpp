// SPDX-License-Identifier: Apache-2.0
// Storage details of chunks, for tools that copy chunks without decoding them, and for lists of bad chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Location of a stored chunk.
struct ChunkPlace {
  std::string file;                        ///< Path of the file, as the user gave it
  std::string path;                        ///< Path of the dataset in `file`
  std::vector<std::uint64_t> coordinates;  ///< Coordinates in the chunk grid of the dataset
  /// Offset of the stored bytes in `file`; empty if they were never written, or only libhdf5 knows.
  std::optional<std::uint64_t> address = {};
  std::string filters = {};  ///< Names of the filters, in the order of writing: "shuffle+gzip"; may be empty
  std::uint64_t first_row = 0;  ///< First row of the dataset that the chunk has a part of
  std::uint64_t end_row = 0;    ///< End of these rows
};

/// Returns where chunk number `chunk` of `reader` is stored; of joined datasets, the one it belongs to.
/// Thread-safe. Throws std::bad_alloc.
ChunkPlace place_of(const ChunkReader& reader, std::uint64_t chunk);

/// Interface of readers that know how their chunks are stored; implemented in addition to ChunkReader.
/// Thread-safe.
class StoredChunks {
 public:
  /// Returns the StoredChunks of `reader`, which must outlive it. If the reader does not implement it,
  /// returns one that reports every chunk as written with all filters.
  static const StoredChunks& of(const ChunkReader& reader) noexcept;

  /// Returns whether the chunk was written. False only if it is known never to have been: it then has the
  /// fill value.
  virtual bool written(std::uint64_t chunk) const noexcept = 0;

  /// Returns the mask of filters that were skipped for the chunk, as in H5Dwrite_chunk.
  virtual std::uint32_t filter_mask(std::uint64_t chunk) const noexcept = 0;

  /// Returns where the chunk is stored; empty if the reader knows no more than its own metadata and grid.
  virtual std::optional<ChunkPlace> place(std::uint64_t) const { return std::nullopt; }

 protected:
  ~StoredChunks() = default;
};

/// Returns the place of a chunk according to the metadata and grid of `reader`, at `address` in its file.
/// Throws std::bad_alloc.
ChunkPlace place_in_grid(const ChunkReader& reader, std::uint64_t chunk,
                         std::optional<std::uint64_t> address = {});

}  // namespace h5feed
