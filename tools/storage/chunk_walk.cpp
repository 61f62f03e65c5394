// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/chunk_walk.hpp"

#include <algorithm>
#include <stdexcept>

#include "store/format/chunk_geometry.hpp"

namespace h5feed::cli {
namespace {

std::vector<std::uint64_t> or_one(const std::vector<std::uint64_t>& extents) {
  return extents.empty() ? std::vector<std::uint64_t>{1} : extents;
}

std::uint64_t product_behind(const std::vector<std::uint64_t>& extents, std::size_t dimension) {
  std::uint64_t product = 1;
  for (std::size_t d = dimension + 1; d < extents.size(); ++d) product *= extents[d];
  return product;
}

}  // namespace

void require_grid(const ChunkReader& reader) {
  if (!reader.regular()) throw std::invalid_argument(reader.info().place() + ": its chunks are on no grid");
}

ChunkWalk::ChunkWalk(const ChunkReader& reader, std::uint64_t slab_bytes)
    : shape_(or_one(reader.info().shape)),
      chunk_shape_(or_one(reader.chunk_shape())),
      grid_(or_one(reader.grid())),
      element_bytes_(size_of(reader.info().dtype)),
      num_chunks_(reader.num_chunks()) {
  require_grid(reader);
  while (dimension_ + 1 < shape_.size() && shape_[dimension_] == 1) ++dimension_;
  chunks_per_band_ = product_behind(grid_, dimension_);
  row_bytes_ = product_behind(shape_, dimension_) * element_bytes_;
  const std::uint64_t fit = slab_bytes / std::max<std::uint64_t>(1, row_bytes_);
  slab_rows_ = std::clamp<std::uint64_t>(fit, 1, std::min(chunk_shape_[dimension_], shape_[dimension_] + 1));
}

std::uint64_t ChunkWalk::band_end() const noexcept {
  return std::min(shape_[dimension_], (band_ + 1) * chunk_shape_[dimension_]);
}

std::optional<ChunkVisit> ChunkWalk::next() {
  if (band_ * chunks_per_band_ >= num_chunks_) return std::nullopt;
  ChunkVisit visit{.chunk = band_ * chunks_per_band_ + chunk_in_band_,
                   .first_row = first_row_,
                   .end_row = std::min(first_row_ + slab_rows_, band_end()),
                   .first = first_row_ == band_ * chunk_shape_[dimension_],
                   .opens_slab = chunk_in_band_ == 0,
                   .closes_slab = chunk_in_band_ + 1 == chunks_per_band_};
  if (!visit.closes_slab) {
    ++chunk_in_band_;
    return visit;
  }
  chunk_in_band_ = 0;
  first_row_ = visit.end_row;
  if (first_row_ == band_end()) ++band_;
  return visit;
}

std::uint64_t ChunkWalk::visits() const noexcept {
  const std::uint64_t chunk_rows = chunk_shape_[dimension_];
  const auto slabs = [&](std::uint64_t rows) { return (rows + slab_rows_ - 1) / slab_rows_; };
  const std::uint64_t whole_bands = shape_[dimension_] / chunk_rows;
  return num_chunks_ == 0
             ? 0
             : (whole_bands * slabs(chunk_rows) + slabs(shape_[dimension_] % chunk_rows)) * chunks_per_band_;
}

std::size_t ChunkWalk::slab_bytes(const ChunkVisit& visit) const noexcept {
  return static_cast<std::size_t>((visit.end_row - visit.first_row) * row_bytes_);
}

ChunkBox ChunkWalk::box(std::uint64_t chunk) const {
  const std::vector<std::uint64_t> coordinates = chunk_coordinates(chunk, grid_);
  ChunkBox box;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    box.start.push_back(coordinates[d] * chunk_shape_[d]);
    box.count.push_back(std::min(chunk_shape_[d], shape_[d] - box.start[d]));
  }
  return box;
}

void ChunkWalk::place(const ChunkVisit& visit, const ChunkBox& box, std::span<const std::byte> values,
                      std::span<std::byte> slab) const {
  std::vector<std::uint64_t> extent = box.count;
  std::vector<std::uint64_t> slab_shape = shape_;
  extent[dimension_] = slab_shape[dimension_] = visit.end_row - visit.first_row;
  const std::uint64_t skipped =
      (visit.first_row - box.start[dimension_]) * product_behind(box.count, dimension_);
  std::uint64_t to = 0;
  for (std::size_t d = dimension_ + 1; d < shape_.size(); ++d) to += box.start[d] * product_behind(shape_, d);
  copy_box({extent, box.count, slab_shape, element_bytes_}, values.data() + skipped * element_bytes_,
           slab.data() + to * element_bytes_);
}

}  // namespace h5feed::cli
