// Which chunks hold a sample, and where in them its elements lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "store/chunk_reader.hpp"

namespace h5feed {

/// Sample → chunks, for a dataset whose samples are the rows of dimension 0. A sample lies in one
/// chunk when the chunks span all other dimensions; otherwise in `pieces()` chunks, one for every
/// cell of the chunk grid's other dimensions. Immutable and thread-safe.
class SampleMap {
 public:
  /// The dataset has at least one dimension.
  explicit SampleMap(const ChunkReader& reader);

  /// Which samples are in which chunk; where samples span several, these count as one.
  const RowLayout& rows() const noexcept { return rows_; }
  /// Samples in a chunk, on average over several datasets.
  std::uint64_t typical_rows_per_chunk() const noexcept {
    return rows_.regular() ? rows_.rows_per_chunk() : (rows_.num_rows() - 1) / rows_.num_chunks() + 1;
  }
  /// Chunks that one sample touches.
  std::uint64_t pieces() const noexcept { return pieces_.size(); }
  /// Decoded bytes of one sample.
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  /// Decoded bytes of one sample, or of its piece, within one chunk.
  std::size_t chunk_row_bytes() const noexcept { return chunk_row_bytes_; }
  /// A sample is one run of bytes within one chunk.
  bool rows_contiguous() const noexcept { return rows_contiguous_; }

  /// Number of the chunk that holds piece `piece` of sample `row`.
  std::uint64_t chunk_of(std::uint64_t row, std::uint64_t piece) const noexcept {
    return rows_.chunk_of(row) * pieces_.size() + piece;
  }

  /// Where the sample, or its piece, begins in its decoded chunk; with `rows_contiguous()` all its bytes
  /// follow there.
  const std::byte* row_in_chunk(const std::byte* chunk, std::uint64_t row) const noexcept {
    return chunk + rows_.place_in_chunk(row) * chunk_row_bytes_;
  }

  /// Copies one piece of a sample, which `row_in_chunk` begins, to where it belongs in `out`, the sample's
  /// bytes (`row_bytes()` long) in row-major order.
  void copy_piece(const std::byte* row_in_chunk, std::uint64_t piece, std::byte* out) const;

 private:
  // One cell of the chunk grid's other dimensions, clipped to the dataset's extent.
  struct Piece {
    std::vector<std::uint64_t> extent;  // of the piece, per dimension but the first
    std::size_t to = 0;                 // byte where the piece begins in the sample
  };

  RowLayout rows_;
  std::size_t row_bytes_ = 0;
  std::size_t chunk_row_bytes_ = 0;
  bool rows_contiguous_ = true;
  std::size_t element_bytes_ = 1;
  std::vector<std::uint64_t> sample_shape_;
  std::vector<std::uint64_t> chunk_row_shape_;  // one row of a chunk
  std::vector<Piece> pieces_;
};

}  // namespace h5feed
