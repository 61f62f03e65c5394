// SPDX-License-Identifier: Apache-2.0
// Tells when a round has taken all rows of a chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace h5feed {

/// Counts the rows of each chunk of a field that the running round has taken. Thread-safe. The start of a
/// round overlaps with the end of the previous one; a chunk that serves both at once starts to count again,
/// and then does not count as finished.
class ServedRows {
 public:
  ServedRows() = default;
  /// Counts `num_chunks` chunks. Takes 8 bytes for each, of which the system provides those that are used.
  /// Throws std::bad_alloc.
  explicit ServedRows(std::uint64_t num_chunks)
      : chunks_(static_cast<std::uint64_t*>(std::calloc(num_chunks, sizeof(std::uint64_t)))) {
    if (num_chunks > 0 && chunks_ == nullptr) throw std::bad_alloc();
  }

  /// Adds `rows` taken by `round` from `chunk`. Returns true if that makes `rows_in_chunk`.
  bool add(std::uint64_t chunk, std::uint64_t round, std::uint32_t rows,
           std::uint64_t rows_in_chunk) noexcept {
    const std::atomic_ref<std::uint64_t> served(chunks_.get()[chunk]);
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
  struct Free {
    void operator()(std::uint64_t* counts) const noexcept { std::free(counts); }
  };

  // For each chunk, the round in the upper 32 bits and the rows that it has taken in the lower 32. A file of
  // a few KB can claim 2^30 chunks: `calloc` does not touch the memory for them, as a vector would.
  std::unique_ptr<std::uint64_t, Free> chunks_;
};

}  // namespace h5feed
