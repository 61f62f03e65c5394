#include "dataset/sample_map.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace h5feed {
namespace {

// Row-major strides in bytes.
std::vector<std::size_t> strides_of(std::span<const std::uint64_t> extent, std::size_t element_bytes) {
  std::vector<std::size_t> strides(extent.size());
  std::size_t stride = element_bytes;
  for (std::size_t d = extent.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= extent[d];
  }
  return strides;
}

}  // namespace

SampleMap::SampleMap(const DatasetInfo& info, const std::vector<std::uint64_t>& chunk_shape,
                     const std::vector<std::uint64_t>& grid) {
  const std::size_t element_bytes = size_of(info.dtype);
  row_bytes_ = info.row_bytes();
  if (info.shape.empty()) {
    chunk_row_bytes_ = row_bytes_;
    pieces_.resize(1);
    return;
  }
  const std::span shape = std::span(info.shape).subspan(1);
  const std::span chunk = std::span(chunk_shape).subspan(1);
  const std::span inner_grid = std::span(grid).subspan(1);
  rows_per_chunk_ = chunk_shape.front();
  row_strides_ = strides_of(shape, element_bytes);
  chunk_strides_ = strides_of(chunk, element_bytes);
  chunk_row_bytes_ = element_bytes;
  for (const std::uint64_t extent : chunk) chunk_row_bytes_ *= extent;
  rows_contiguous_ = std::ranges::equal(shape, chunk);

  std::uint64_t count = 1;
  for (const std::uint64_t cells : inner_grid) count *= cells;
  pieces_.resize(count);
  for (std::uint64_t number = 0; number < count; ++number) {
    Piece& piece = pieces_[number];
    piece.extent.resize(shape.size());
    std::uint64_t rest = number;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::uint64_t begin = rest % inner_grid[d] * chunk[d];
      rest /= inner_grid[d];
      piece.extent[d] = std::min(chunk[d], shape[d] - begin);
      piece.to += begin * row_strides_[d];
    }
  }
}

void SampleMap::copy_piece(const std::byte* chunk, std::uint64_t row, std::uint64_t piece_number,
                           std::byte* out) const {
  const std::byte* const from = row_in_chunk(chunk, row);
  if (rows_contiguous_) {
    std::memcpy(out, from, row_bytes_);
    return;
  }
  const Piece& piece = pieces_[piece_number];
  const std::size_t last = piece.extent.size() - 1;
  const std::size_t run_bytes = piece.extent[last] * row_strides_[last];
  std::vector<std::uint64_t> at(piece.extent.size(), 0);
  std::size_t source = 0;
  std::size_t target = piece.to;
  while (true) {
    std::memcpy(out + target, from + source, run_bytes);
    // Odometer over all dimensions but the last, which one run covers.
    std::size_t d = last;
    while (d > 0) {
      --d;
      source += chunk_strides_[d];
      target += row_strides_[d];
      if (++at[d] < piece.extent[d]) break;
      source -= piece.extent[d] * chunk_strides_[d];
      target -= piece.extent[d] * row_strides_[d];
      at[d] = 0;
      if (d == 0) return;
    }
    if (last == 0) return;
  }
}

}  // namespace h5feed
