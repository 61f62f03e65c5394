#include "dataset/sample_map.hpp"

#include <algorithm>
#include <span>

#include "store/chunk_geometry.hpp"

namespace h5feed {

SampleMap::SampleMap(const ChunkReader& reader) : rows_(reader.rows()) {
  const DatasetInfo& info = reader.info();
  row_bytes_ = info.row_bytes();
  element_bytes_ = size_of(info.dtype);
  const std::span shape = std::span(info.shape).subspan(1);
  const std::span chunk = std::span(reader.chunk_shape()).subspan(1);
  const std::span inner_grid = std::span(reader.grid()).subspan(1);
  sample_shape_.assign(shape.begin(), shape.end());
  chunk_row_shape_.assign(chunk.begin(), chunk.end());
  chunk_row_bytes_ = element_bytes_;
  for (const std::uint64_t extent : chunk) chunk_row_bytes_ *= extent;
  rows_contiguous_ = std::ranges::equal(shape, chunk);

  std::uint64_t count = 1;
  for (const std::uint64_t cells : inner_grid) count *= cells;
  pieces_.resize(count);
  for (std::uint64_t number = 0; number < count; ++number) {
    Piece& piece = pieces_[number];
    piece.extent.resize(shape.size());
    const std::vector<std::uint64_t> cell = chunk_coordinates(number, inner_grid);
    std::size_t first_element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::uint64_t begin = cell[d] * chunk[d];
      piece.extent[d] = std::min(chunk[d], shape[d] - begin);
      first_element = first_element * shape[d] + begin;
    }
    piece.to = first_element * element_bytes_;
  }
}

void SampleMap::copy_piece(const std::byte* row_in_chunk, std::uint64_t piece_number, std::byte* out) const {
  const Piece& piece = pieces_[piece_number];
  copy_box({piece.extent, chunk_row_shape_, sample_shape_, element_bytes_}, row_in_chunk, out + piece.to);
}

}  // namespace h5feed
