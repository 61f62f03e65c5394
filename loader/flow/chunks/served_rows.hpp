// SPDX-License-Identifier: Apache-2.0
// When a chunk has given all its rows to a round.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace h5feed {

/// Counts, for every chunk of a field, the rows that the running round has taken from it. Thread-safe.
/// The beginning of the next round overlaps with the end of this one; a chunk that serves both at once
/// is counted anew, and then counts as not finished.
class ServedRows {
 public:
  ServedRows() = default;
  explicit ServedRows(std::uint64_t num_chunks) : chunks_(num_chunks) {}

  /// Adds rows of a chunk; true when the round now has `rows_in_chunk` of them.
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
