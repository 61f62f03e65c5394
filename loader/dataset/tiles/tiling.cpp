// SPDX-License-Identifier: Apache-2.0
#include "dataset/tiles/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "dataset/tiles/foreground_places.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// Limits that fit the loader's sample numbers and leave room for a product with the batch size.
constexpr std::uint64_t kMaxTiles = std::uint64_t{1} << 53;
constexpr std::uint64_t kMaxTileBytes = std::uint64_t{1} << 47;

// Purposes of the random bits of one tile; the first three are the axes.
enum Use : std::uint64_t { kForeground = 3, kClass, kPixel, kMirror, kExchange = kMirror + kTileAxes };

std::uint64_t key_of_tile(std::uint64_t tile, const EpochKey& key) noexcept {
  return mix_key(mix_key(key.seed, kTilePlace, key.epoch), kTilePlace, tile);
}

std::string text(const PerAxis<std::uint64_t>& extents, bool volumes) {
  if (!volumes) return fmt::format("{}×{}", extents[1], extents[2]);
  return fmt::format("{}×{}×{}", extents[0], extents[1], extents[2]);
}

// Returns the number of tiles that cover `extent` pixels, all of which begin within the image.
std::uint64_t tiles_that_cover(std::uint64_t extent, std::uint64_t size, std::uint64_t stride) {
  if (extent <= size) return 1;
  const std::uint64_t reaching_the_end = (extent - size - 1) / stride + 2;
  return std::min(reaching_the_end, (extent - 1) / stride + 1);
}

TileAxis make_axis(std::uint64_t extent, std::uint64_t size, std::uint64_t stride, TileEdges edges) {
  TileAxis axis{.extent = extent, .size = size, .stride = stride, .inside = edges == TileEdges::shift};
  axis.count =
      edges == TileEdges::drop ? (extent - size) / stride + 1 : tiles_that_cover(extent, size, stride);
  return axis;
}

bool multiply(std::uint64_t& value, std::uint64_t factor, std::uint64_t most) noexcept {
  return !__builtin_mul_overflow(value, factor, &value) && value <= most;
}

[[noreturn]] void refuse_count(const DatasetInfo& info, const Tiling::Rule& rule) {
  throw DatasetError(fmt::format(
      "{}:{} ({}): more than {} tiles; use a {}", info.file, short_path(info.path), info.shape_text(),
      format_count(kMaxTiles),
      rule.drawn > 0 ? "smaller " + spelled("tiles.per_image") : "larger " + spelled("tiles.stride")));
}

void check_fits(const DatasetInfo& info, const PerAxis<std::uint64_t>& extents, const Tiling::Rule& rule) {
  if (std::ranges::find(extents, 0U) != extents.end()) {
    throw DatasetError(fmt::format("{}:{} ({}) has no pixels to take tiles of; leave it out", info.file,
                                   short_path(info.path), info.shape_text()));
  }
  if (rule.edges == TileEdges::pad) return;
  if (std::ranges::equal(rule.size, extents, std::ranges::less_equal())) return;
  throw DatasetError(
      fmt::format("{}:{} ({}): tiles of {} do not fit into images of {}; use a smaller {}, or {}{}",
                  info.file, short_path(info.path), info.shape_text(), text(rule.size, rule.volumes),
                  text(extents, rule.volumes), spelled("tiles.size"), spelled("tiles.edges", "pad"),
                  info.shape.size() == 3 && extents[2] <= 4
                      ? ". If the dataset is one image, open it with " + spelled("sample", "dataset")
                      : std::string()));
}

// Returns the part of the shape that follows the first dimension.
std::vector<std::uint64_t> without_rows(std::span<const std::uint64_t> shape) {
  return {shape.begin() + 1, shape.end()};
}

}  // namespace

std::uint64_t TileAxis::begin(std::uint64_t tile) const noexcept {
  const std::uint64_t at = tile * stride;
  return inside ? std::min(at, extent - size) : at;
}

std::uint64_t TileAxis::covered(std::uint64_t tile) const noexcept {
  return std::min(size, extent - begin(tile));
}

TileWindow TileAxis::window_at(std::uint64_t first) const noexcept {
  if (extent < size) return {0, extent, (size - extent) / 2};
  return {first, first + size, 0};
}

TileAxis::Run TileAxis::touching(std::uint64_t from, std::uint64_t to) const noexcept {
  // Begins and ends of tiles ascend. Only the last tile may begin elsewhere than at `tile · stride`.
  const auto first_where = [this](const auto& holds) {
    std::uint64_t low = 0;
    std::uint64_t high = count;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  const std::uint64_t first =
      first_where([&](std::uint64_t tile) { return begin(tile) + covered(tile) > from; });
  const std::uint64_t end = first_where([&](std::uint64_t tile) { return begin(tile) >= to; });
  return {first, std::max(first, end)};
}

std::uint64_t TileRun::pieces() const noexcept {
  std::uint64_t pieces = 1;
  for (const std::uint64_t cells : grid) {
    if (!multiply(pieces, cells, std::numeric_limits<std::uint64_t>::max()))
      return std::numeric_limits<std::uint64_t>::max();
  }
  return pieces;
}

Tiling::Tiling(const Rule& rule, const PerAxis<std::size_t>& dimensions, std::span<const JoinedPart> images)
    : rule_(rule), dimensions_(dimensions) {
  std::vector<TileRun> runs;
  for (const JoinedPart& part : images) {
    if (part.rows == 0) continue;
    const DatasetInfo& info = part.reader->info();
    TileRun run{.first_image = num_images_,
                .first_tile = num_tiles_,
                .axes = {},
                .image_shape = without_rows(info.shape),
                .chunk_shape = without_rows(part.reader->chunk_shape()),
                .grid = without_rows(part.reader->grid())};
    PerAxis<std::uint64_t> extents = {1, 1, 1};
    for (std::size_t axis = 0; axis < kTileAxes; ++axis) {
      if (dimensions[axis] > 0) extents[axis] = info.shape[dimensions[axis]];
    }
    check_fits(info, extents, rule);
    if (rule.drawn > 0) run.per_image = rule.drawn;
    for (std::size_t axis = 0; axis < kTileAxes; ++axis) {
      run.axes[axis] = make_axis(extents[axis], rule.size[axis], rule.stride[axis],
                                 rule.drawn > 0 ? TileEdges::pad : rule.edges);
      if (rule.drawn == 0 && !multiply(run.per_image, run.axes[axis].count, kMaxTiles))
        refuse_count(info, rule);
    }
    std::uint64_t tiles = part.rows;
    if (!multiply(tiles, run.per_image, kMaxTiles) || num_tiles_ + tiles > kMaxTiles)
      refuse_count(info, rule);
    per_image_ = num_tiles_ == 0 || per_image_ == run.per_image ? run.per_image : 0;
    num_images_ += part.rows;
    num_tiles_ += tiles;
    most_pieces_ = std::max(most_pieces_, run.pieces());
    const bool alike = !runs.empty() && runs.back().image_shape == run.image_shape &&
                       runs.back().chunk_shape == run.chunk_shape;
    if (!alike) runs.push_back(std::move(run));
  }
  runs_ = std::make_shared<const std::vector<TileRun>>(std::move(runs));
}

const TileRun& Tiling::run_of(std::uint64_t tile) const noexcept {
  if (runs_->size() == 1) return runs_->front();
  return *(std::ranges::upper_bound(*runs_, tile, {}, &TileRun::first_tile) - 1);
}

const TileRun& Tiling::run_of_image(std::uint64_t image) const noexcept {
  if (runs_->size() == 1) return runs_->front();
  return *(std::ranges::upper_bound(*runs_, image, {}, &TileRun::first_image) - 1);
}

std::uint64_t Tiling::image_of(std::uint64_t tile) const noexcept {
  const TileRun& run = run_of(tile);
  return run.first_image + (tile - run.first_tile) / run.per_image;
}

std::uint64_t Tiling::first_tile_of(std::uint64_t image) const noexcept {
  const TileRun& run = run_of_image(image);
  return run.first_tile + (image - run.first_image) * run.per_image;
}

TileBox Tiling::box(std::uint64_t tile, const EpochKey& epoch) const noexcept {
  const TileRun& run = run_of(tile);
  TileBox box;
  if (rule_.drawn == 0) {
    std::uint64_t rest = (tile - run.first_tile) % run.per_image;
    for (std::size_t axis = kTileAxes; axis-- > 0;) {
      box[axis] = run.axes[axis].window(rest % run.axes[axis].count);
      rest /= run.axes[axis].count;
    }
    return box;
  }
  const std::uint64_t key = key_of_tile(tile, epoch);
  const auto bits = [key](std::uint64_t use) { return mix_key(key, kTilePlace, use); };
  std::optional<std::uint64_t> pixel;
  if (places_ && static_cast<double>(bits(kForeground) >> 11) * 0x1p-53 < rule_.foreground) {
    const std::uint64_t image = run.first_image + (tile - run.first_tile) / run.per_image;
    pixel = places_->draw(image, bits(kClass), bits(kPixel));
  }
  for (std::size_t axis = kTileAxes; axis-- > 0;) {
    const TileAxis& along = run.axes[axis];
    std::uint64_t first = draw_below(bits(axis), along.places());
    if (pixel) {
      const std::uint64_t centre = *pixel % along.extent;
      *pixel /= along.extent;
      first = std::min(centre - std::min(centre, along.size / 2), along.places() - 1);
    }
    box[axis] = along.window_at(first);
  }
  return box;
}

Tiling::Turn Tiling::turn(std::uint64_t tile, const EpochKey& epoch) const noexcept {
  Turn turn;
  if (rule_.turns == TileTurns::none) return turn;
  const std::uint64_t key = key_of_tile(tile, epoch);
  const auto bits = [key](std::uint64_t use) { return mix_key(key, kTilePlace, use); };
  const std::size_t first = rule_.volumes ? 0 : 1;
  for (std::size_t axis = first; axis < kTileAxes; ++axis)
    turn.mirrored[axis] = bits(kMirror + axis) >> 63 != 0;
  // Exchanges each axis with one of those that are not placed yet (Fisher, Yates).
  const std::size_t turning = rule_.turns == TileTurns::flips ? kTileAxes
                              : rule_.turns == TileTurns::all ? first
                                                              : 1;
  for (std::size_t axis = turning; axis + 1 < kTileAxes; ++axis)
    std::swap(turn.from[axis], turn.from[axis + draw_below(bits(kExchange + axis), kTileAxes - axis)]);
  return turn;
}

std::optional<Tiling> Tiling::of_field(const PerAxis<std::size_t>& dimensions,
                                       std::span<const JoinedPart> images) const {
  std::uint64_t image = 0;
  for (const JoinedPart& part : images) {
    const std::uint64_t end = image + part.rows;
    while (image < end) {
      const TileRun& run = run_of_image(image);
      for (std::size_t axis = 0; axis < kTileAxes; ++axis) {
        const std::uint64_t extent = dimensions[axis] == 0 ? 1 : part.reader->info().shape[dimensions[axis]];
        if (extent != run.axes[axis].extent) return std::nullopt;
      }
      const TileRun* const next = &run + 1;
      image = std::min(end, next == runs_->data() + runs_->size() ? num_images_ : next->first_image);
    }
  }
  return Tiling(rule_, dimensions, images);
}

Tiling Tiling::with_foreground(std::shared_ptr<const ForegroundPlaces> places) const {
  Tiling tiling = *this;
  tiling.places_ = std::move(places);
  return tiling;
}

DatasetInfo tiles_of(DatasetInfo info, const Tiling& tiling) {
  const Tiling::Rule& rule = tiling.rule();
  info.shape.front() = tiling.num_tiles();
  for (std::size_t axis = 0; axis < kTileAxes; ++axis) {
    if (tiling.dimensions()[axis] > 0) info.shape[tiling.dimensions()[axis]] = rule.size[axis];
  }
  std::uint64_t bytes = size_of(info.dtype);
  for (std::size_t d = 1; d < info.shape.size(); ++d) {
    if (multiply(bytes, info.shape[d], kMaxTileBytes)) continue;
    throw DatasetError(fmt::format("{}:{}: a tile of {} is larger than any memory; use a smaller {}",
                                   info.file, short_path(info.path), text(rule.size, rule.volumes),
                                   spelled("tiles.size")));
  }
  info.max_shape = info.shape;
  return info;
}

}  // namespace h5feed
