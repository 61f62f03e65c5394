// SPDX-License-Identifier: Apache-2.0
// Reads the rows of sparse matrices in blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"
#include "store/sparse/stored_run.hpp"

namespace h5feed {

/// The matrix of one file.
struct SparsePart {
  std::shared_ptr<const ChunkReader> values;   ///< Non-zero values, row by row; one dimension
  std::shared_ptr<const ChunkReader> indices;  ///< Column of each value, integers
  /// Rows + 1 positions at which the rows begin in `values`; the first is 0.
  std::vector<std::uint64_t> starts;
  std::string file;  ///< Path of the file
  std::string path;  ///< Path of the group in the file

  /// Returns the number of rows.
  std::uint64_t rows() const noexcept { return starts.size() - 1; }
};

/// The rows of sparse matrices in sequence, (N, columns). A chunk is a block of rows: those whose first value
/// lies in a run of whole chunks of values with at least 4 MiB decoded, 1 MiB without filters. It holds the
/// values and columns of its rows, and is opaque: `row_of` finds a row in it. Uses 8 bytes of memory per row.
/// Immutable and thread-safe.
class SparseReader final : public ChunkReader {
 public:
  /// One row of a decoded block; borrows it.
  struct Row {
    const std::byte* values = nullptr;      ///< `columns.size()` values of type `info().dtype`, unaligned
    std::span<const std::int32_t> columns;  ///< Column of each value, below `columns()`
  };

  /// Creates the reader; `info` names the rows for messages and has the shape (N, delivered columns).
  /// Requires at least one part with rows; all parts have the same type of values and `columns` columns.
  /// Throws std::bad_alloc.
  static std::shared_ptr<const SparseReader> make(std::vector<SparsePart> parts, DatasetInfo info,
                                                  std::uint64_t columns);

  /// Returns the number of columns as stored.
  std::uint64_t columns() const noexcept { return columns_; }
  /// Returns the number of values of a row.
  std::uint64_t length(std::uint64_t row) const noexcept { return starts_[row + 1] - starts_[row]; }
  /// Returns the number of values of all rows.
  std::uint64_t num_values() const noexcept { return starts_.back(); }
  /// Returns the number of values of the longest row.
  std::uint64_t longest() const noexcept { return longest_; }
  /// Returns the most values that `count` different rows can have together. O(rows). Throws std::bad_alloc.
  std::uint64_t most_values(std::uint64_t count) const;

  /// Returns row `row` in the decoded chunk that holds it, which must stay alive.
  Row row_of(const std::byte* chunk, std::uint64_t row) const noexcept;

  std::uint64_t scratch_bytes() const noexcept override;
  bool direct() const noexcept override;
  std::string fallback_reason() const override;
  /// Throws ChunkError also for a column that the matrix does not have, naming its row.
  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override;
  std::uint64_t stored_bytes(std::uint64_t chunk) const override;
  bool stored_decoded(std::uint64_t chunk) const override;
  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override;
  /// Throws as `read_chunk`.
  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override;
  /// Returns false: rows differ in size. See `rows_apart`.
  bool rows_readable() const noexcept override { return false; }
  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }
  bool row_resident(std::uint64_t row) const noexcept override;
  /// The rows may be in several blocks.
  void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept override;
  /// Returns whether `read_row` can be called: no part has filters.
  bool rows_apart() const noexcept;
  /// Reads one row without the rest of its block into `buffer`, and adds to `cost`. The row borrows the
  /// buffer. Blocks. Throws FileError; ChunkError as `read_chunk`; std::bad_alloc.
  Row read_row(std::uint64_t row, ByteBuffer& buffer, ReadScratch& scratch, ReadCost& cost) const;
  /// Throws ChunkError as `read_chunk` for a column that the matrix does not have, if all columns take at
  /// most `most_bytes`; else does nothing. Leaves what cannot be read to `read_chunk`. Blocks.
  void check_columns(std::uint64_t most_bytes) const;
  RowOrigin origin(std::uint64_t row) const override;
  std::string describe_chunk(std::uint64_t chunk) const override;

 private:
  struct Block {
    std::uint32_t part = 0;
    std::uint64_t first_row = 0;
  };
  // Values [begin, end) of one part, numbered among those of all parts.
  struct Values {
    std::uint32_t part = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Shape;
  SparseReader(std::vector<SparsePart> parts, DatasetInfo info, std::uint64_t columns, Shape shape);
  std::uint64_t end_row(std::uint64_t chunk) const noexcept;
  Values values_of(std::uint64_t chunk) const;
  std::vector<StoredRun> runs_of(const Values& values) const;
  ReadCost read(const Values& range, std::span<const std::byte> raw, std::span<std::byte> out,
                ReadScratch& scratch) const;
  std::size_t columns_at(std::uint64_t values) const noexcept;
  void copy_columns(std::uint64_t first_value, std::span<const std::byte> stored, DType type,
                    std::int32_t* out) const;
  void check_values(std::uint64_t first_value, std::span<const std::byte> stored, DType type) const;
  [[noreturn]] void refuse_column(std::uint64_t value, const std::string& column) const;
  std::size_t part_of(std::uint64_t row) const noexcept;

  const std::vector<SparsePart> parts_;    // their `starts` are moved into `starts_`
  std::vector<std::uint64_t> first_rows_;  // first row of each part
  std::vector<std::uint64_t> starts_;      // position of each row among the values of all parts
  std::vector<Block> blocks_;
  const std::uint64_t columns_;
  std::uint64_t longest_ = 0;
};

}  // namespace h5feed
