// SPDX-License-Identifier: Apache-2.0
#include "dataset/sample_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

// Limits on the pieces: with tiles they are numbered in 32 bits, without they are listed in memory.
constexpr std::uint64_t kMaxPieces = 0xFFFFFFFF;
constexpr std::uint64_t kMaxListedPieces = std::uint64_t{1} << 22;

}  // namespace

SampleMap::SampleMap(const ChunkReader& reader, const std::optional<Tiling>& tiling)
    : rows_(reader.rows()), tiling_(tiling) {
  const DatasetInfo& info = reader.info();
  row_bytes_ = info.row_bytes();
  element_bytes_ = size_of(info.dtype);
  const std::span shape = std::span(info.shape).subspan(1);
  const std::span chunk = std::span(reader.chunk_shape()).subspan(1);
  const std::span inner_grid = std::span(reader.grid()).subspan(1);
  sample_shape_.assign(shape.begin(), shape.end());
  chunk_row_shape_.assign(chunk.begin(), chunk.end());
  inner_grid_.assign(inner_grid.begin(), inner_grid.end());
  chunk_row_bytes_ = element_bytes_;
  for (const std::uint64_t extent : chunk) chunk_row_bytes_ *= extent;
  rows_contiguous_ = !tiling_ && std::ranges::equal(shape, chunk);

  for (const std::uint64_t cells : inner_grid) num_pieces_ *= cells;
  if (num_pieces_ > (tiling_ ? kMaxPieces : kMaxListedPieces)) {
    throw DatasetError(fmt::format(
        "{}:{} ({}): a sample spans {} chunks, too many to keep track of; write it once in larger "
        "chunks",
        info.file, short_path(info.path), info.shape_text(), format_count(num_pieces_)));
  }
  if (tiling_) {
    tiles_per_row_ = tiling_->per_image();
    return;
  }
  pieces_.resize(num_pieces_);
  for (std::uint64_t number = 0; number < num_pieces_; ++number) {
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

SampleMap::Window SampleMap::window(std::uint64_t tile, std::size_t dimension) const noexcept {
  const std::uint64_t within = tiling_->within_image(tile);
  const auto of = [](const TileAxis& axis, std::uint64_t place) {
    return Window{axis.begin(place), axis.begin(place) + axis.covered(place)};
  };
  if (dimension == tiling_->y_dimension) return of(tiling_->y, within / tiling_->x.count);
  if (dimension == tiling_->x_dimension) return of(tiling_->x, within % tiling_->x.count);
  return {0, tiling_->image_shape[dimension]};
}

void SampleMap::append_pieces(std::uint64_t row, std::vector<std::uint64_t>& out) const {
  if (!tiling_) {
    for (std::uint64_t piece = 0; piece < num_pieces_; ++piece) out.push_back(piece);
    return;
  }
  const auto first_new = static_cast<std::ptrdiff_t>(out.size());
  out.push_back(0);
  for (std::size_t d = 0; d < inner_grid_.size(); ++d) {
    const Window covered = window(row, d + 1);
    const std::uint64_t first = covered.begin / chunk_row_shape_[d];
    const std::uint64_t last = (covered.end - 1) / chunk_row_shape_[d];
    const std::vector<std::uint64_t> before(out.begin() + first_new, out.end());
    out.resize(static_cast<std::size_t>(first_new));
    for (const std::uint64_t piece : before) {
      for (std::uint64_t cell = first; cell <= last; ++cell) out.push_back(piece * inner_grid_[d] + cell);
    }
  }
}

std::uint64_t SampleMap::samples_in(std::uint64_t chunk) const noexcept {
  const std::uint64_t samples = rows_.rows_of(chunk / num_pieces_).count();
  if (!tiling_) return samples;
  std::uint64_t of_an_image = 1;
  std::uint64_t piece = chunk % num_pieces_;
  for (std::size_t d = inner_grid_.size(); d-- > 0;) {
    const std::uint64_t begin = piece % inner_grid_[d] * chunk_row_shape_[d];
    piece /= inner_grid_[d];
    if (d + 1 == tiling_->y_dimension)
      of_an_image *= tiling_->y.touching(begin, begin + chunk_row_shape_[d]).count();
    if (d + 1 == tiling_->x_dimension)
      of_an_image *= tiling_->x.touching(begin, begin + chunk_row_shape_[d]).count();
  }
  return samples / tiles_per_row_ * of_an_image;
}

double SampleMap::chunks_per_sample() const noexcept {
  if (!tiling_) return static_cast<double>(num_pieces_);
  double chunks = 1;
  for (std::size_t d = 0; d < inner_grid_.size(); ++d) {
    const bool along_y = d + 1 == tiling_->y_dimension;
    if (!along_y && d + 1 != tiling_->x_dimension) {
      chunks *= static_cast<double>(inner_grid_[d]);
      continue;
    }
    const TileAxis& axis = along_y ? tiling_->y : tiling_->x;
    // On average a window that may begin at any pixel crosses a border every `chunk` pixels.
    const bool aligned = axis.stride % chunk_row_shape_[d] == 0;
    const std::uint64_t whole = (axis.size - 1) / chunk_row_shape_[d] + 1;
    const double anywhere = 1 + static_cast<double>(axis.size - 1) / static_cast<double>(chunk_row_shape_[d]);
    chunks *= std::min(static_cast<double>(inner_grid_[d]), aligned ? static_cast<double>(whole) : anywhere);
  }
  return chunks;
}

std::uint64_t SampleMap::chunks_side_by_side() const noexcept {
  if (!tiling_) return num_pieces_;
  std::uint64_t chunks = 1;
  for (std::size_t d = 0; d < inner_grid_.size(); ++d) {
    std::uint64_t cells = inner_grid_[d];
    if (d + 1 == tiling_->y_dimension)
      cells = std::min(cells, (std::min(tiling_->y.size, tiling_->y.extent) - 1) / chunk_row_shape_[d] + 2);
    chunks *= cells;
  }
  return chunks;
}

void SampleMap::copy_piece(const std::byte* row_in_chunk, std::uint64_t row, std::uint64_t piece_number,
                           std::byte* out) const {
  if (tiling_) {
    copy_tile_piece(row_in_chunk, row, piece_number, out);
    return;
  }
  const Piece& piece = pieces_[piece_number];
  copy_box({piece.extent, chunk_row_shape_, sample_shape_, element_bytes_}, row_in_chunk, out + piece.to);
}

void SampleMap::copy_tile_piece(const std::byte* row_in_chunk, std::uint64_t tile, std::uint64_t piece,
                                std::byte* out) const {
  const std::vector<std::uint64_t> cell = chunk_coordinates(piece, inner_grid_);
  std::vector<std::uint64_t> extent(cell.size());
  std::size_t from = 0;
  std::size_t to = 0;
  for (std::size_t d = 0; d < cell.size(); ++d) {
    const Window covered = window(tile, d + 1);
    const std::uint64_t cell_begin = cell[d] * chunk_row_shape_[d];
    const std::uint64_t begin = std::max(covered.begin, cell_begin);
    extent[d] = std::min(covered.end, cell_begin + chunk_row_shape_[d]) - begin;
    from = from * chunk_row_shape_[d] + (begin - cell_begin);
    to = to * sample_shape_[d] + (begin - covered.begin);
  }
  copy_box({extent, chunk_row_shape_, sample_shape_, element_bytes_}, row_in_chunk + from * element_bytes_,
           out + to * element_bytes_);
}

void SampleMap::fill_edges(std::uint64_t row, std::byte* out) const {
  if (!tiling_) return;
  const Window y = window(row, tiling_->y_dimension);
  const Window x = window(row, tiling_->x_dimension);
  const std::uint64_t height = tiling_->y.size;
  const std::uint64_t width = tiling_->x.size;
  if (y.end - y.begin == height && x.end - x.begin == width) return;
  std::size_t planes = 1;
  std::size_t pixel_bytes = element_bytes_;
  for (std::size_t d = 1; d < tiling_->y_dimension; ++d) planes *= sample_shape_[d - 1];
  for (std::size_t d = tiling_->x_dimension; d < sample_shape_.size(); ++d) pixel_bytes *= sample_shape_[d];
  const std::size_t line_bytes = width * pixel_bytes;
  const std::size_t covered_bytes = (x.end - x.begin) * pixel_bytes;
  for (std::size_t plane = 0; plane < planes; ++plane) {
    for (std::uint64_t line = 0; line < height; ++line) {
      std::byte* const begin = out + (plane * height + line) * line_bytes;
      const std::size_t kept = line < y.end - y.begin ? covered_bytes : 0;
      if (kept < line_bytes) std::memset(begin + kept, 0, line_bytes - kept);
    }
  }
}

}  // namespace h5feed
