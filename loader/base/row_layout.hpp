// SPDX-License-Identifier: Apache-2.0
// Maps the rows of a dataset to its chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace h5feed {

/// Maps rows 0 … n − 1 to chunks 0 … k − 1, in order. In a single dataset all chunks have the same height,
/// except a shorter last one. Several datasets joined in sequence (files of a list, groups, sources of a
/// virtual dataset) each bring their own chunk height and a short last chunk; if a dataset takes part from
/// its middle on, its first chunk begins with skipped rows. Lookups are O(1) for one dataset and O(log m) for
/// m joined ones. Copies are cheap and share the 32 bytes per joined dataset. Immutable and thread-safe.
class RowLayout {
 public:
  /// The consecutive rows of one joined dataset.
  struct Run {
    std::uint64_t rows = 0;
    std::uint64_t rows_per_chunk = 1;
    std::uint64_t skipped = 0;  ///< Rows of the first chunk in front of the run; less than `rows_per_chunk`
  };

  /// The half-open range of rows [first, end).
  struct Rows {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint64_t count() const noexcept { return end - first; }
  };

  /// Layout of one dataset. Requires `rows_per_chunk` ≥ 1.
  RowLayout(std::uint64_t rows, std::uint64_t rows_per_chunk);
  /// Layout of several datasets in sequence. A run without rows has no chunk. Throws std::bad_alloc.
  explicit RowLayout(const std::vector<Run>& runs);

  std::uint64_t num_rows() const noexcept { return num_rows_; }
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// Rows of a full chunk; the maximum over joined datasets.
  std::uint64_t rows_per_chunk() const noexcept { return rows_per_chunk_; }
  /// Returns whether every chunk c begins with row c · rows_per_chunk().
  bool regular() const noexcept { return runs_ == nullptr; }

  /// Returns the chunk that holds `row` < num_rows().
  std::uint64_t chunk_of(std::uint64_t row) const noexcept {
    if (regular()) return row / rows_per_chunk_;
    const Placed& run = run_of_row(row);
    return run.first_chunk + (row - run.first_row + run.skipped) / run.rows_per_chunk;
  }
  /// Returns the index of `row` within its chunk, counting skipped rows.
  std::uint64_t place_in_chunk(std::uint64_t row) const noexcept {
    if (regular()) return row % rows_per_chunk_;
    const Placed& run = run_of_row(row);
    return (row - run.first_row + run.skipped) % run.rows_per_chunk;
  }
  /// Returns the rows of `chunk` < num_chunks(), without skipped rows.
  Rows rows_of(std::uint64_t chunk) const noexcept;

  /// Returns a 64-bit hash (FNV-1a) of the layout, the same in every process.
  std::uint64_t fingerprint() const noexcept;

 private:
  struct Placed {
    std::uint64_t first_row = 0;
    std::uint64_t first_chunk = 0;
    std::uint64_t rows_per_chunk = 1;
    std::uint64_t skipped = 0;
  };
  const Placed& run_of_row(std::uint64_t row) const noexcept;
  const Placed& run_of_chunk(std::uint64_t chunk) const noexcept;

  std::uint64_t num_rows_ = 0;
  std::uint64_t num_chunks_ = 0;
  std::uint64_t rows_per_chunk_ = 1;
  std::shared_ptr<const std::vector<Placed>> runs_;  // null if regular
};

}  // namespace h5feed
