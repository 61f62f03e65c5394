// Which chunks hold a sample, and where in them its elements lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataset/tiling.hpp"
#include "store/chunk_reader.hpp"

namespace h5feed {

/// Sample → chunks, for a dataset whose samples are the rows of dimension 0, or tiles of these. A sample lies
/// in one chunk when the chunks span all other dimensions; otherwise in several of `pieces()` chunks, one for
/// every cell of the chunk grid's other dimensions: a row in all of them, a tile in those it touches.
/// Immutable and thread-safe.
class SampleMap {
 public:
  /// With `tiling`, `reader` is from `as_tiles`. Throws DatasetError for samples in too many chunks.
  explicit SampleMap(const ChunkReader& reader, const std::optional<Tiling>& tiling = {});

  /// Which samples are in which chunk; where samples span several, these count as one.
  const RowLayout& rows() const noexcept { return rows_; }
  /// Samples in a chunk, on average over several datasets.
  std::uint64_t typical_rows_per_chunk() const noexcept {
    return rows_.regular() ? rows_.rows_per_chunk() : (rows_.num_rows() - 1) / rows_.num_chunks() + 1;
  }
  /// Chunks that hold the same samples.
  std::uint64_t pieces() const noexcept { return num_pieces_; }
  /// Whether samples are tiles: each lies in some of the pieces only.
  bool tiled() const noexcept { return tiling_.has_value(); }
  /// Decoded bytes of one sample.
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  /// Decoded bytes of one row of the dataset, or of its piece, within one chunk.
  std::size_t chunk_row_bytes() const noexcept { return chunk_row_bytes_; }
  /// A sample is one run of bytes within one chunk.
  bool rows_contiguous() const noexcept { return rows_contiguous_; }

  /// Number of the chunk that holds piece `piece` of sample `row`.
  std::uint64_t chunk_of(std::uint64_t row, std::uint64_t piece) const noexcept {
    return rows_.chunk_of(row) * num_pieces_ + piece;
  }

  /// The pieces that sample `row` has a part in, in ascending order, appended to `out`.
  void append_pieces(std::uint64_t row, std::vector<std::uint64_t>& out) const;

  /// How many samples have a part in chunk number `chunk`.
  std::uint64_t samples_in(std::uint64_t chunk) const noexcept;

  /// Chunks that a sample has a part in, on average over the tiles of an image.
  double chunks_per_sample() const noexcept;

  /// Chunks that the samples of a row of tiles have parts in; without tiles those of one sample.
  std::uint64_t chunks_side_by_side() const noexcept;

  /// Where the dataset's row with the sample, or its piece, begins in its decoded chunk; with
  /// `rows_contiguous()` all bytes of the sample follow there.
  const std::byte* row_in_chunk(const std::byte* chunk, std::uint64_t row) const noexcept {
    return chunk + rows_.place_in_chunk(row) / tiles_per_row_ * chunk_row_bytes_;
  }

  /// Copies one piece of sample `row`, whose dataset row begins at `row_in_chunk`, to where it belongs in
  /// `out`, the sample's bytes (`row_bytes()` long) in row-major order.
  void copy_piece(const std::byte* row_in_chunk, std::uint64_t row, std::uint64_t piece,
                  std::byte* out) const;

  /// Sets what no piece of sample `row` brings to `out`, beyond the edges of the image, to zero.
  void fill_edges(std::uint64_t row, std::byte* out) const;

 private:
  // One cell of the chunk grid's other dimensions, clipped to the dataset's extent.
  struct Piece {
    std::vector<std::uint64_t> extent;  // of the piece, per dimension but the first
    std::size_t to = 0;                 // byte where the piece begins in the sample
  };
  // What a tile covers of its image along a dimension but the first.
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
  std::vector<std::uint64_t> chunk_row_shape_;  // one row of a chunk
  std::vector<std::uint64_t> inner_grid_;
  std::vector<Piece> pieces_;  // empty with tiles
};

}  // namespace h5feed
