// SPDX-License-Identifier: Apache-2.0
// Storage details of chunks, for tools that copy chunks without decoding them.
#pragma once

#include <cstdint>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

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

 protected:
  ~StoredChunks() = default;
};

}  // namespace h5feed
