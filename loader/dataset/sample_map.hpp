// SPDX-License-Identifier: Apache-2.0
// Maps samples to chunks and to the places of their elements within these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dataset/tiles/tiling.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Maps samples to chunks, for a dataset whose samples are the rows of dimension 0 or tiles of these rows. If
/// chunks span all other dimensions, each sample is in one chunk. Otherwise the chunks that hold the same
/// rows are called pieces, one per cell of the chunk grid's other dimensions: a row has a part in all
/// `pieces()`, a tile in those it touches. Functions with an `EpochKey` need it for tiles whose place is
/// drawn in each epoch; it has no effect on others. Immutable and thread-safe.
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
  /// Number of chunks that hold the same rows; the largest if images differ in it.
  std::uint64_t pieces() const noexcept { return num_pieces_; }
  /// Returns the number of chunks that hold the same rows; the average if images differ in it.
  double typical_pieces() const noexcept { return typical_pieces_; }
  /// Returns whether samples are tiles, each of which touches only some of the pieces.
  bool tiled() const noexcept { return tiling_.has_value(); }
  /// Returns how images are cut into tiles; null unless `tiled()`.
  const Tiling* tiling() const noexcept { return tiling_ ? &*tiling_ : nullptr; }
  /// Sets the places for `Tiling::Rule::foreground`; requires `tiled()`. Not thread-safe.
  void set_foreground(std::shared_ptr<const ForegroundPlaces> places) {
    tiling_ = tiling_->with_foreground(std::move(places));
  }
  /// Returns whether the place of each sample is drawn in each epoch.
  bool drawn() const noexcept { return tiling_ && tiling_->rule().drawn > 0; }
  /// Decoded bytes of one sample.
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  /// Decoded bytes of one row of the dataset, or of its piece, within one chunk, padding at the edge
  /// included; the largest if chunks differ.
  std::size_t chunk_row_bytes() const noexcept { return chunk_row_bytes_; }
  /// Returns whether a sample is one contiguous run of bytes within one chunk.
  bool rows_contiguous() const noexcept { return rows_contiguous_; }

  /// Returns the number of the chunk that holds piece `piece` of sample `row`.
  std::uint64_t chunk_of(std::uint64_t row, std::uint64_t piece) const noexcept {
    return rows_.chunk_of(row) * num_pieces_ + piece;
  }

  /// Appends the pieces that sample `row` has a part in to `out`, in ascending order. Throws std::bad_alloc.
  void append_pieces(std::uint64_t row, const EpochKey& key, std::vector<std::uint64_t>& out) const;

  /// Returns how many samples have a part in chunk number `chunk`. O(samples of the chunk's rows) if
  /// `drawn()`.
  std::uint64_t samples_in(std::uint64_t chunk, const EpochKey& key) const noexcept;
  /// Returns whether any sample has a part in chunk number `chunk`; if `drawn()`, whether one may have.
  bool in_use(std::uint64_t chunk) const noexcept;

  /// Returns the number of chunks that a sample has a part in; an average over the tiles of an image.
  double chunks_per_sample() const noexcept;
  /// Returns how many of the `typical_pieces()` samples have parts in; with drawn tiles the expectation.
  double pieces_in_use() const noexcept;
  /// Returns an upper bound on how many chunks that hold parts of the same rows samples have parts in.
  std::uint64_t most_pieces_in_use() const noexcept;

  /// Returns an upper bound on the chunks that one row of tiles, or one layer in volumes, has parts in;
  /// without tiles the chunks of one sample, with drawn tiles those of one image.
  std::uint64_t chunks_side_by_side() const noexcept;

  /// Returns where the dataset row of sample `row`, or its piece, begins in the decoded `chunk`; if
  /// `rows_contiguous()`, all bytes of the sample follow.
  const std::byte* row_in_chunk(const std::byte* chunk, std::uint64_t row) const noexcept {
    if (tiling_) return image_in_chunk(chunk, row);
    return chunk + rows_.place_in_chunk(row) * chunk_row_bytes_;
  }

  /// Copies one piece of sample `row` to its place in `out`. `row_in_chunk` is the result of the function of
  /// that name; `out` holds the `row_bytes()` bytes of the sample in row-major order.
  void copy_piece(const std::byte* row_in_chunk, std::uint64_t row, const EpochKey& key, std::uint64_t piece,
                  std::byte* out) const;

  /// Zeroes the part of `out`, the bytes of sample `row`, that is beyond the edges of the image and that no
  /// piece covers.
  void fill_edges(std::uint64_t row, const EpochKey& key, std::byte* out) const;

  /// Flips and turns the sample at `from` as drawn for it, into `to`, two buffers of `row_bytes()` that do
  /// not overlap. Returns false, and writes nothing, if the sample stays as it is.
  bool turn(std::uint64_t row, const EpochKey& key, const std::byte* from, std::byte* to) const;
  /// Returns whether `turn` may return true.
  bool turns() const noexcept { return tiling_ && tiling_->rule().turns != TileTurns::none; }

 private:
  // One cell of the chunk grid's other dimensions, clipped to the dataset's extent.
  struct Piece {
    std::vector<std::uint64_t> extent;  // extent of the piece in each dimension except the first
    std::size_t to = 0;                 // byte offset of the piece in the sample
  };
  const std::byte* image_in_chunk(const std::byte* chunk, std::uint64_t tile) const noexcept;
  TileWindow window(const TileRun& run, const TileBox& box, std::size_t dimension) const noexcept;
  std::size_t axis_of(std::size_t dimension) const noexcept;
  double chunks_per_tile(const TileRun& run) const noexcept;
  std::uint64_t images_in(std::uint64_t chunk_of_rows, const TileRun& run) const noexcept;
  void copy_tile_piece(const std::byte* row_in_chunk, std::uint64_t tile, const EpochKey& key,
                       std::uint64_t piece, std::byte* out) const;

  RowLayout rows_;
  std::optional<Tiling> tiling_;
  std::uint64_t num_pieces_ = 1;
  double typical_pieces_ = 1;
  std::size_t row_bytes_ = 0;
  std::size_t chunk_row_bytes_ = 0;
  bool rows_contiguous_ = true;
  std::size_t element_bytes_ = 1;
  std::vector<std::uint64_t> sample_shape_;
  std::vector<std::uint64_t> chunk_row_shape_;  // shape of one row of a chunk; empty with tiles
  std::vector<Piece> pieces_;                   // empty with tiles
};

}  // namespace h5feed
