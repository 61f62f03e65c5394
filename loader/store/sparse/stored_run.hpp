// SPDX-License-Identifier: Apache-2.0
// Parts of stored chunks of a dataset of one dimension.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Values [begin, begin + count) of a dataset of one dimension, all in one chunk. Borrows the reader.
struct StoredRun {
  const ChunkReader* reader = nullptr;
  std::uint64_t chunk = 0;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;

  /// Returns the bytes that `fetch` reads; 0 if it cannot be called.
  std::uint64_t stored_bytes() const;

  /// Reads the stored bytes into `raw` (`stored_bytes()` long) without decoding them. Blocks. Throws
  /// FileError.
  ReadCost fetch(std::span<std::byte> raw) const;

  /// Returns the values, from `raw` that `fetch` filled, or if it is empty from the file, and adds to `cost`.
  /// A whole chunk is decoded into `place`, if that has its size; otherwise the values are in `scratch.part`
  /// or in `raw`. Blocks. Throws FileError, ChunkError, std::bad_alloc.
  std::span<const std::byte> read(std::span<const std::byte> raw, std::span<std::byte> place,
                                  ReadScratch& scratch, ReadCost& cost) const;
};

/// Calls `take(const StoredRun&)` for the runs of values [begin, end), in order.
template <typename Take>
void each_run(const ChunkReader& reader, std::uint64_t begin, std::uint64_t end, const Take& take) {
  while (begin < end) {
    const std::uint64_t chunk = reader.rows().chunk_of(begin);
    const std::uint64_t count = std::min(end, reader.rows().rows_of(chunk).end) - begin;
    take(StoredRun{.reader = &reader, .chunk = chunk, .begin = begin, .count = count});
    begin += count;
  }
}

}  // namespace h5feed
