// SPDX-License-Identifier: Apache-2.0
// Maps samples to chunks and to the places of their elements within these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataset/tiling.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Maps samples to chunks, for a dataset whose samples are the rows of dimension 0 or tiles of these rows. If
/// chunks span all other dimensions, each sample is in one chunk. Otherwise the chunks that hold the same
/// rows are called pieces, one per cell of the chunk grid's other dimensions: a row has a part in all
/// `pieces()`, a tile in those it touches. Immutable and thread-safe.
class SampleMap {
 public:
  /// With `tiling`, `reader` comes from `as_tiles`. Copies what it needs; does not keep `reader`. Throws
  /// DatasetError if samples span too many chunks.
  explicit SampleMap(const ChunkReader& reader, const std::optional<Tiling>& tiling = {});

  /// Maps samples to chunks, with all pieces of a row of chunks counted as one chunk.
  const RowLayout& rows() const noexcept { return rows_; }
  /// Samples per chunk; the average if chunks differ in height.
  std::uint64_t typical_rows_per_chunk() const noexcept {
    return rows_.regular() ? rows_.rows_per_chunk() : (rows_.num_rows() - 1) / rows_.num_chunks() + 1;
  }
  /// Number of chunks that hold the same rows.
  std::uint64_t pieces() const noexcept { return num_pieces_; }
  /// Returns whether samples are tiles, each of which touches only some of the pieces.
  bool tiled() const noexcept { return tiling_.has_value(); }
  /// Decoded bytes of one sample.
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  /// Decoded bytes of one row of the dataset, or of its piece, within one chunk, padding at the edge
  /// included.
  std::size_t chunk_row_bytes() const noexcept { return chunk_row_bytes_; }
  /// Returns whether a sample is one contiguous run of bytes within one chunk.
  bool rows_contiguous() const noexcept { return rows_contiguous_; }

  /// Returns the number of the chunk that holds piece `piece` of sample `row`.
  std::uint64_t chunk_of(std::uint64_t row, std::uint64_t piece) const noexcept {
    return rows_.chunk_of(row) * num_pieces_ + piece;
  }

  /// Appends the pieces that sample `row` has a part in to `out`, in ascending order. Throws std::bad_alloc.
  void append_pieces(std::uint64_t row, std::vector<std::uint64_t>& out) const;

  /// Returns how many samples have a part in chunk number `chunk`.
  std::uint64_t samples_in(std::uint64_t chunk) const noexcept;

  /// Returns the number of chunks that a sample has a part in; an average over the tiles of an image.
  double chunks_per_sample() const noexcept;

  /// Returns an upper bound on the chunks that one row of tiles has parts in; without tiles the chunks of one
  /// sample.
  std::uint64_t chunks_side_by_side() const noexcept;

  /// Returns where the dataset row of sample `row`, or its piece, begins in the decoded `chunk`; if
  /// `rows_contiguous()`, all bytes of the sample follow.
  const std::byte* row_in_chunk(const std::byte* chunk, std::uint64_t row) const noexcept {
    return chunk + rows_.place_in_chunk(row) / tiles_per_row_ * chunk_row_bytes_;
  }

  /// Copies one piece of sample `row` to its place in `out`. `row_in_chunk` is the result of the function of
  /// that name; `out` holds the `row_bytes()` bytes of the sample in row-major order.
  void copy_piece(const std::byte* row_in_chunk, std::uint64_t row, std::uint64_t piece,
                  std::byte* out) const;

  /// Zeroes the part of `out`, the bytes of sample `row`, that is beyond the edges of the image and that no
  /// piece covers.
  void fill_edges(std::uint64_t row, std::byte* out) const;

 private:
  // One cell of the chunk grid's other dimensions, clipped to the dataset's extent.
  struct Piece {
    std::vector<std::uint64_t> extent;  // extent of the piece in each dimension except the first
    std::size_t to = 0;                 // byte offset of the piece in the sample
  };
  // The range of its image that a tile covers along one dimension except the first.
  struct Window {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  Window window(std::uint64_t tile, std::size_t dimension) const noexcept;
  void copy_tile_piece(const std::byte* row_in_chunk, std::uint64_t tile, std::uint64_t piece,
                       std::byte* out) const;

  RowLayout rows_;
  std::optional<Tiling> tiling_;
  std::uint64_t tiles_per_row_ = 1;
  std::uint64_t num_pieces_ = 1;
  std::size_t row_bytes_ = 0;
  std::size_t chunk_row_bytes_ = 0;
  bool rows_contiguous_ = true;
  std::size_t element_bytes_ = 1;
  std::vector<std::uint64_t> sample_shape_;
  std::vector<std::uint64_t> chunk_row_shape_;  // shape of one row of a chunk
  // Chunk grid without its first dimension.
  std::vector<std::uint64_t> inner_grid_;
  std::vector<Piece> pieces_;  // empty with tiles
};

}  // namespace h5feed
