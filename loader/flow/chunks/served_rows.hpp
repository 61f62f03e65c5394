// SPDX-License-Identifier: Apache-2.0
// Tells when a round has taken all rows of a chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace h5feed {

/// Counts the rows of each chunk of a field that the running round has taken. Thread-safe. The start of a
/// round overlaps with the end of the previous one; a chunk that serves both at once starts to count again,
/// and then does not count as finished.
class ServedRows {
 public:
  ServedRows() = default;
  /// Counts `num_chunks` chunks.
  explicit ServedRows(std::uint64_t num_chunks) : chunks_(num_chunks) {}

  /// Adds `rows` taken by `round` from `chunk`. Returns true if that makes `rows_in_chunk`.
  bool add(std::uint64_t chunk, std::uint64_t round, std::uint32_t rows,
           std::uint64_t rows_in_chunk) noexcept {
    std::atomic<std::uint64_t>& served = chunks_[chunk];
    const std::uint64_t tag = round << 32;
    std::uint64_t before = served.load(std::memory_order_relaxed);
    std::uint64_t after = 0;
    do {
      const bool same_round = (before ^ tag) >> 32 == 0;
      after = tag | (((same_round ? before : 0) + rows) & 0xFFFFFFFF);
    } while (!served.compare_exchange_weak(before, after, std::memory_order_relaxed));
    return (after & 0xFFFFFFFF) == rows_in_chunk;
  }

 private:
  std::vector<std::atomic<std::uint64_t>> chunks_;  // round in the upper half, rows in the lower
};

}  // namespace h5feed
