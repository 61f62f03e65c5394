// Which rows lie together: how the rows of a dataset are dealt to chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace h5feed {

/// Rows 0 … n − 1 cut into chunks 0 … k − 1, in order. One dataset has chunks of equal height but for the
/// last. Several datasets in a row (files of a list, groups, sources of a virtual dataset) bring a short
/// chunk each, and heights of their own; of a dataset that takes part from its middle on, the first chunk
/// begins with rows that do not count. O(1) for one dataset, O(log m) for m of them, which share
/// 32 bytes each; a cheap handle to copy. Immutable and thread-safe.
class RowLayout {
 public:
  /// Rows that come from one dataset.
  struct Run {
    std::uint64_t rows = 0;
    std::uint64_t rows_per_chunk = 1;
    std::uint64_t skipped = 0;  ///< rows of the first chunk before the first that counts; < rows_per_chunk
  };

  /// [first, end).
  struct Rows {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint64_t count() const noexcept { return end - first; }
  };

  /// One dataset.
  RowLayout(std::uint64_t rows, std::uint64_t rows_per_chunk);
  /// Several; those without rows have no chunk.
  explicit RowLayout(const std::vector<Run>& runs);

  std::uint64_t num_rows() const noexcept { return num_rows_; }
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// Rows of a full chunk; of several datasets the largest.
  std::uint64_t rows_per_chunk() const noexcept { return rows_per_chunk_; }
  /// Whether chunk c begins with row c · rows_per_chunk().
  bool regular() const noexcept { return runs_ == nullptr; }

  std::uint64_t chunk_of(std::uint64_t row) const noexcept {
    if (regular()) return row / rows_per_chunk_;
    const Placed& run = run_of_row(row);
    return run.first_chunk + (row - run.first_row + run.skipped) / run.rows_per_chunk;
  }
  /// How many rows of its chunk come before it, those that do not count included.
  std::uint64_t place_in_chunk(std::uint64_t row) const noexcept {
    if (regular()) return row % rows_per_chunk_;
    const Placed& run = run_of_row(row);
    return (row - run.first_row + run.skipped) % run.rows_per_chunk;
  }
  Rows rows_of(std::uint64_t chunk) const noexcept;

  /// The same chunks where every row is `parts` rows; their number, and that of a chunk's rows where
  /// `regular()` is false, fits 64 bits. Throws std::bad_alloc.
  RowLayout multiplied(std::uint64_t parts) const;

  /// A number that differs where the chunks do.
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
  std::shared_ptr<const std::vector<Placed>> runs_;  // null where regular
};

}  // namespace h5feed
