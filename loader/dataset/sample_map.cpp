// SPDX-License-Identifier: Apache-2.0
#include "dataset/sample_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/format/turned_copy.hpp"

namespace h5feed {
namespace {

// Limits on the pieces: with tiles they are numbered in 32 bits, without they are listed in memory.
constexpr std::uint64_t kMaxPieces = 0xFFFFFFFF;
constexpr std::uint64_t kMaxListedPieces = std::uint64_t{1} << 22;

// Zeroes what `windows` do not cover of an array of `shape`. Dimensions from `d` on; `bytes` are those of one
// element of dimension d.
void zero_outside(std::span<const std::uint64_t> shape, std::span<const TileWindow> windows,
                  std::size_t element_bytes, std::byte* out) {
  const auto partial = [&](std::size_t d) { return windows[d].count() < shape[d]; };
  std::size_t last = shape.size();
  while (last > 0 && !partial(last - 1)) --last;
  if (last == 0) return;
  std::size_t bytes = element_bytes;
  for (std::size_t d = 1; d < shape.size(); ++d) bytes *= shape[d];
  const std::size_t begin = partial(0) ? windows[0].before : 0;
  const std::size_t end = partial(0) ? begin + windows[0].count() : shape[0];
  std::memset(out, 0, begin * bytes);
  std::memset(out + end * bytes, 0, (shape[0] - end) * bytes);
  if (last == 1) return;
  for (std::size_t i = begin; i < end; ++i)
    zero_outside(shape.subspan(1), windows.subspan(1), element_bytes, out + i * bytes);
}

}  // namespace

SampleMap::SampleMap(const ChunkReader& reader, const std::optional<Tiling>& tiling)
    : rows_(reader.rows()), tiling_(tiling) {
  const DatasetInfo& info = reader.info();
  row_bytes_ = info.row_bytes();
  element_bytes_ = size_of(info.dtype);
  const std::span shape = std::span(info.shape).subspan(1);
  sample_shape_.assign(shape.begin(), shape.end());
  const auto chunk_row_bytes = [this](std::span<const std::uint64_t> chunk) {
    std::size_t bytes = element_bytes_;
    for (const std::uint64_t extent : chunk) bytes *= extent;
    return bytes;
  };
  const std::span chunk = std::span(reader.chunk_shape()).subspan(1);
  const std::span inner_grid = std::span(reader.grid()).subspan(1);
  if (tiling_) {
    num_pieces_ = tiling_->most_pieces();
  } else {
    for (const std::uint64_t cells : inner_grid) num_pieces_ *= cells;
  }
  if (num_pieces_ > (tiling_ ? kMaxPieces : kMaxListedPieces)) {
    throw DatasetError(fmt::format(
        "{}:{} ({}): a sample spans {} chunks, more than h5feed supports; rewrite the dataset with "
        "larger chunks",
        info.file, short_path(info.path), info.shape_text(), format_count(num_pieces_)));
  }
  typical_pieces_ = static_cast<double>(num_pieces_);
  if (tiling_) {
    rows_contiguous_ = false;
    double pieces = 0;
    const std::span<const TileRun> runs = tiling_->runs();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      chunk_row_bytes_ = std::max(chunk_row_bytes_, chunk_row_bytes(runs[i].chunk_shape));
      const std::uint64_t end = i + 1 < runs.size() ? runs[i + 1].first_image : tiling_->num_images();
      pieces += static_cast<double>(end - runs[i].first_image) * static_cast<double>(runs[i].pieces());
    }
    if (runs.size() > 1) typical_pieces_ = pieces / static_cast<double>(tiling_->num_images());
    return;
  }
  chunk_row_shape_.assign(chunk.begin(), chunk.end());
  chunk_row_bytes_ = chunk_row_bytes(chunk);
  rows_contiguous_ = std::ranges::equal(shape, chunk);
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

// Returns the axis that lies along a dimension of the samples; `kTileAxes` if none does.
std::size_t SampleMap::axis_of(std::size_t dimension) const noexcept {
  std::size_t axis = 0;
  while (axis < kTileAxes && tiling_->dimensions()[axis] != dimension + 1) ++axis;
  return axis;
}

// Returns the part of an image that a tile covers along a dimension of the samples.
TileWindow SampleMap::window(const TileRun& run, const TileBox& box, std::size_t dimension) const noexcept {
  const std::size_t axis = axis_of(dimension);
  return axis < kTileAxes ? box[axis] : TileWindow{0, run.image_shape[dimension], 0};
}

const std::byte* SampleMap::image_in_chunk(const std::byte* chunk, std::uint64_t tile) const noexcept {
  const TileRun& run = tiling_->run_of(tile);
  std::size_t bytes = element_bytes_;
  for (const std::uint64_t extent : run.chunk_shape) bytes *= extent;
  return chunk + rows_.place_in_chunk(tile) / run.per_image * bytes;
}

void SampleMap::append_pieces(std::uint64_t row, const EpochKey& key, std::vector<std::uint64_t>& out) const {
  if (!tiling_) {
    for (std::uint64_t piece = 0; piece < num_pieces_; ++piece) out.push_back(piece);
    return;
  }
  const TileRun& run = tiling_->run_of(row);
  const TileBox box = tiling_->box(row, key);
  const auto first_new = static_cast<std::ptrdiff_t>(out.size());
  out.push_back(0);
  for (std::size_t d = 0; d < run.grid.size(); ++d) {
    const TileWindow covered = window(run, box, d);
    const std::uint64_t first = covered.begin / run.chunk_shape[d];
    const std::uint64_t last = (covered.end - 1) / run.chunk_shape[d];
    const std::vector<std::uint64_t> before(out.begin() + first_new, out.end());
    out.resize(static_cast<std::size_t>(first_new));
    for (const std::uint64_t piece : before) {
      for (std::uint64_t cell = first; cell <= last; ++cell) out.push_back(piece * run.grid[d] + cell);
    }
  }
}

std::uint64_t SampleMap::samples_in(std::uint64_t chunk, const EpochKey& key) const noexcept {
  const RowLayout::Rows samples = rows_.rows_of(chunk / num_pieces_);
  if (!tiling_) return samples.count();
  const TileRun& run = tiling_->run_of(samples.first);
  std::uint64_t piece = chunk % num_pieces_;
  if (piece >= run.pieces()) return 0;
  PerAxis<std::uint64_t> begin = {};
  PerAxis<std::uint64_t> end = {1, 1, 1};
  for (std::size_t d = run.grid.size(); d-- > 0;) {
    const std::size_t axis = axis_of(d);
    if (axis < kTileAxes) {
      begin[axis] = piece % run.grid[d] * run.chunk_shape[d];
      end[axis] = begin[axis] + run.chunk_shape[d];
    }
    piece /= run.grid[d];
  }
  if (drawn()) {
    std::uint64_t count = 0;
    for (std::uint64_t tile = samples.first; tile < samples.end; ++tile) {
      const TileBox box = tiling_->box(tile, key);
      bool touches = true;
      for (std::size_t axis = 0; axis < kTileAxes; ++axis)
        touches = touches && box[axis].begin < end[axis] && box[axis].end > begin[axis];
      count += touches ? 1 : 0;
    }
    return count;
  }
  std::uint64_t of_an_image = 1;
  for (std::size_t axis = 0; axis < kTileAxes; ++axis)
    of_an_image *= run.axes[axis].touching(begin[axis], end[axis]).count();
  return samples.count() / run.per_image * of_an_image;
}

bool SampleMap::in_use(std::uint64_t chunk) const noexcept {
  if (!drawn()) return samples_in(chunk, {}) > 0;
  return chunk % num_pieces_ < tiling_->run_of(rows_.rows_of(chunk / num_pieces_).first).pieces();
}

// Returns the mean number of chunks that a tile of these images has a part in.
double SampleMap::chunks_per_tile(const TileRun& run) const noexcept {
  double chunks = 1;
  for (std::size_t d = 0; d < run.grid.size(); ++d) {
    const auto cells = static_cast<double>(run.grid[d]);
    const std::size_t at = axis_of(d);
    if (at == kTileAxes) {
      chunks *= cells;
      continue;
    }
    const TileAxis& axis = run.axes[at];
    // On average a window that may begin at any pixel crosses a border every `chunk` pixels.
    const bool aligned = !drawn() && axis.stride % run.chunk_shape[d] == 0;
    const std::uint64_t whole = (axis.size - 1) / run.chunk_shape[d] + 1;
    const double anywhere = 1 + static_cast<double>(axis.size - 1) / static_cast<double>(run.chunk_shape[d]);
    chunks *= std::min(cells, aligned ? static_cast<double>(whole) : anywhere);
  }
  return chunks;
}

double SampleMap::chunks_per_sample() const noexcept {
  if (!tiling_) return static_cast<double>(num_pieces_);
  double chunks = 0;
  const std::span<const TileRun> runs = tiling_->runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::uint64_t end = i + 1 < runs.size() ? runs[i + 1].first_tile : tiling_->num_tiles();
    chunks += static_cast<double>(end - runs[i].first_tile) * chunks_per_tile(runs[i]);
  }
  return chunks / static_cast<double>(tiling_->num_tiles());
}

// Returns how many images have parts in the same chunk.
std::uint64_t SampleMap::images_in(std::uint64_t chunk_of_rows, const TileRun& run) const noexcept {
  return rows_.rows_of(chunk_of_rows).count() / run.per_image;
}

double SampleMap::pieces_in_use() const noexcept {
  if (!drawn()) return typical_pieces_;
  double pieces = 0;
  const std::span<const TileRun> runs = tiling_->runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::uint64_t end = i + 1 < runs.size() ? runs[i + 1].first_image : tiling_->num_images();
    const auto tiles =
        static_cast<double>(images_in(rows_.chunk_of(runs[i].first_tile), runs[i]) * runs[i].per_image);
    const auto all = static_cast<double>(runs[i].pieces());
    const double missed = std::pow(1 - chunks_per_tile(runs[i]) / all, tiles);
    pieces += static_cast<double>(end - runs[i].first_image) * all * (1 - missed);
  }
  return pieces / static_cast<double>(tiling_->num_images());
}

std::uint64_t SampleMap::most_pieces_in_use() const noexcept {
  if (!drawn()) return num_pieces_;
  std::uint64_t most = 1;
  for (const TileRun& run : tiling_->runs()) {
    std::uint64_t of_a_tile = 1;
    for (std::size_t d = 0; d < run.grid.size(); ++d) {
      const std::size_t axis = axis_of(d);
      const std::uint64_t cells =
          axis == kTileAxes
              ? run.grid[d]
              : (std::min(run.axes[axis].size, run.axes[axis].extent) - 2 + run.chunk_shape[d]) /
                        run.chunk_shape[d] +
                    1;
      of_a_tile *= std::min(run.grid[d], cells);
    }
    std::uint64_t all = images_in(rows_.chunk_of(run.first_tile), run) * run.per_image;
    if (__builtin_mul_overflow(all, of_a_tile, &all)) all = run.pieces();
    most = std::max(most, std::min(run.pieces(), all));
  }
  return most;
}

std::uint64_t SampleMap::chunks_side_by_side() const noexcept {
  if (!tiling_) return num_pieces_;
  if (drawn()) return most_pieces_in_use();
  std::uint64_t most = 1;
  const std::size_t first_axis = tiling_->rule().volumes ? 0 : 1;
  for (const TileRun& run : tiling_->runs()) {
    std::uint64_t chunks = 1;
    for (std::size_t d = 0; d < run.grid.size(); ++d) {
      std::uint64_t cells = run.grid[d];
      if (d + 1 == tiling_->dimensions()[first_axis]) {
        const TileAxis& axis = run.axes[first_axis];
        cells = std::min(cells, (std::min(axis.size, axis.extent) - 1) / run.chunk_shape[d] + 2);
      }
      chunks *= cells;
    }
    most = std::max(most, chunks);
  }
  return most;
}

void SampleMap::copy_piece(const std::byte* row_in_chunk, std::uint64_t row, const EpochKey& key,
                           std::uint64_t piece_number, std::byte* out) const {
  if (tiling_) {
    copy_tile_piece(row_in_chunk, row, key, piece_number, out);
    return;
  }
  const Piece& piece = pieces_[piece_number];
  copy_box({piece.extent, chunk_row_shape_, sample_shape_, element_bytes_}, row_in_chunk, out + piece.to);
}

void SampleMap::copy_tile_piece(const std::byte* row_in_chunk, std::uint64_t tile, const EpochKey& key,
                                std::uint64_t piece, std::byte* out) const {
  const TileRun& run = tiling_->run_of(tile);
  const TileBox box = tiling_->box(tile, key);
  const std::vector<std::uint64_t> cell = chunk_coordinates(piece, run.grid);
  std::vector<std::uint64_t> extent(cell.size());
  std::size_t from = 0;
  std::size_t to = 0;
  for (std::size_t d = 0; d < cell.size(); ++d) {
    const TileWindow covered = window(run, box, d);
    const std::uint64_t cell_begin = cell[d] * run.chunk_shape[d];
    const std::uint64_t begin = std::max(covered.begin, cell_begin);
    extent[d] = std::min(covered.end, cell_begin + run.chunk_shape[d]) - begin;
    from = from * run.chunk_shape[d] + (begin - cell_begin);
    to = to * sample_shape_[d] + (begin - covered.begin + covered.before);
  }
  copy_box({extent, run.chunk_shape, sample_shape_, element_bytes_}, row_in_chunk + from * element_bytes_,
           out + to * element_bytes_);
}

void SampleMap::fill_edges(std::uint64_t row, const EpochKey& key, std::byte* out) const {
  if (!tiling_) return;
  const TileRun& run = tiling_->run_of(row);
  const TileBox box = tiling_->box(row, key);
  std::vector<TileWindow> windows(sample_shape_.size());
  for (std::size_t d = 0; d < windows.size(); ++d) windows[d] = window(run, box, d);
  zero_outside(sample_shape_, windows, element_bytes_, out);
}

bool SampleMap::turn(std::uint64_t row, const EpochKey& key, const std::byte* from, std::byte* to) const {
  if (!turns()) return false;
  const Tiling::Turn turn = tiling_->turn(row, key);
  if (turn.none()) return false;
  std::vector<TurnedDimension> dimensions(sample_shape_.size());
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const std::size_t axis = axis_of(d);
    dimensions[d] = {.from = d};
    if (axis < kTileAxes)
      dimensions[d] = {.from = tiling_->dimensions()[turn.from[axis]] - 1, .mirrored = turn.mirrored[axis]};
  }
  turned_copy(sample_shape_, dimensions, element_bytes_, from, to);
  return true;
}

}  // namespace h5feed
