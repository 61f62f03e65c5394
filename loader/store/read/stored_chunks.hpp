// SPDX-License-Identifier: Apache-2.0
// How chunks are stored, for tools that copy them as they are.
#pragma once

#include <cstdint>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// What a reader that knows the storage of its chunks implements beside ChunkReader. Thread-safe.
class StoredChunks {
 public:
  /// That of `reader`, which must outlive it; for a reader that does not know, one by which every chunk was
  /// written with all filters.
  static const StoredChunks& of(const ChunkReader& reader) noexcept;

  /// False only where the chunk is known never to have been written: it takes the fill value.
  virtual bool written(std::uint64_t chunk) const noexcept = 0;

  /// The filters that the stored bytes skip, as H5Dwrite_chunk takes them.
  virtual std::uint32_t filter_mask(std::uint64_t chunk) const noexcept = 0;

 protected:
  ~StoredChunks() = default;
};

}  // namespace h5feed
