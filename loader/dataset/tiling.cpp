// SPDX-License-Identifier: Apache-2.0
#include "dataset/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kMaxSide = std::numeric_limits<std::int32_t>::max();
// Limits that fit the loader's sample numbers and leave room for a product with the batch size.
constexpr std::uint64_t kMaxTiles = std::uint64_t{1} << 53;
constexpr std::uint64_t kMaxTileBytes = std::uint64_t{1} << 47;

std::string text(const TileExtent& extent) { return fmt::format("{}×{}", extent.height, extent.width); }

void check_sides(const char* name, const TileExtent& extent, std::int64_t least) {
  for (const std::int64_t side : {extent.height, extent.width}) {
    if (side >= least && side <= kMaxSide) continue;
    throw OptionError(fmt::format("{} must be {} to {} in height and width; got {}", spelled(name), least,
                                  kMaxSide, text(extent)));
  }
}

// Returns the number of tiles that cover `extent` pixels, all of which begin within the image.
std::uint64_t tiles_that_cover(std::uint64_t extent, std::uint64_t size, std::uint64_t stride) {
  if (extent <= size) return 1;
  const std::uint64_t reaching_the_end = (extent - size - 1) / stride + 2;
  return std::min(reaching_the_end, (extent - 1) / stride + 1);
}

TileAxis make_axis(std::uint64_t extent, std::int64_t size, std::int64_t stride, TileEdges edges) {
  TileAxis axis;
  axis.extent = extent;
  axis.size = static_cast<std::uint64_t>(size);
  axis.stride = static_cast<std::uint64_t>(stride);
  axis.inside = edges == TileEdges::shift;
  axis.count = edges == TileEdges::drop ? (axis.extent - axis.size) / axis.stride + 1
                                        : tiles_that_cover(axis.extent, axis.size, axis.stride);
  return axis;
}

bool multiply(std::uint64_t& value, std::uint64_t factor, std::uint64_t most) noexcept {
  return !__builtin_mul_overflow(value, factor, &value) && value <= most;
}

}  // namespace

std::uint64_t TileAxis::begin(std::uint64_t tile) const noexcept {
  const std::uint64_t at = tile * stride;
  return inside ? std::min(at, extent - size) : at;
}

std::uint64_t TileAxis::covered(std::uint64_t tile) const noexcept {
  return std::min(size, extent - begin(tile));
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

void check_tile_options(const TileOptions& options) {
  check_sides("tiles.size", options.size, 1);
  if (options.stride && options.overlap)
    throw OptionError(fmt::format("{} and {} exclude each other; set one of them", spelled("tiles.stride"),
                                  spelled("tiles.overlap")));
  if (options.stride) check_sides("tiles.stride", *options.stride, 1);
  if (!options.overlap) return;
  check_sides("tiles.overlap", *options.overlap, 0);
  if (options.overlap->height >= options.size.height || options.overlap->width >= options.size.width) {
    throw OptionError(fmt::format("{} {} must be smaller than {} {}", spelled("tiles.overlap"),
                                  text(*options.overlap), spelled("tiles.size"), text(options.size)));
  }
}

Tiling make_tiling(const DatasetInfo& info, InputLayout layout, const TileOptions& options) {
  check_tile_options(options);
  Tiling tiling;
  tiling.image_shape = info.shape;
  switch (layout) {
    case InputLayout::nchw:
      tiling.y_dimension = 2;
      tiling.x_dimension = 3;
      break;
    case InputLayout::nhwc:
    case InputLayout::nhw:
      break;
    case InputLayout::none:
    case InputLayout::automatic:
      throw OptionError(
          fmt::format("{}:{}: tiles need to know which dimensions are height and width; state it: "
                      "{}, NHWC or NHW",
                      info.file, short_path(info.path), spelled("input_layout", "NCHW")));
  }
  TileExtent stride = options.stride.value_or(options.size);
  if (options.overlap) {
    stride = {options.size.height - options.overlap->height, options.size.width - options.overlap->width};
  }
  const std::uint64_t height = info.shape[tiling.y_dimension];
  const std::uint64_t width = info.shape[tiling.x_dimension];
  const bool fits = height >= static_cast<std::uint64_t>(options.size.height) &&
                    width >= static_cast<std::uint64_t>(options.size.width);
  if (!fits && options.edges != TileEdges::pad) {
    throw DatasetError(
        fmt::format("{}:{} ({}): tiles of {} do not fit into images of {}×{}; use a smaller {}, or {}{}",
                    info.file, short_path(info.path), info.shape_text(), text(options.size), height, width,
                    spelled("tiles.size"), spelled("tiles.edges", "pad"),
                    layout == InputLayout::nhw && width <= 4
                        ? ". If the dataset is one image, open it with " + spelled("sample", "dataset")
                        : std::string()));
  }
  tiling.y = make_axis(height, options.size.height, stride.height, options.edges);
  tiling.x = make_axis(width, options.size.width, stride.width, options.edges);
  return tiling;
}

DatasetInfo tiles_of(DatasetInfo info, const Tiling& tiling) {
  std::uint64_t tiles = info.rows();
  if (!multiply(tiles, tiling.y.count, kMaxTiles) || !multiply(tiles, tiling.x.count, kMaxTiles)) {
    throw DatasetError(fmt::format("{}:{} ({}): more than {} tiles; use a larger {}", info.file,
                                   short_path(info.path), info.shape_text(), format_count(kMaxTiles),
                                   spelled("tiles.stride")));
  }
  info.shape.front() = tiles;
  info.shape[tiling.y_dimension] = tiling.y.size;
  info.shape[tiling.x_dimension] = tiling.x.size;
  std::uint64_t bytes = size_of(info.dtype);
  for (std::size_t d = 1; d < info.shape.size(); ++d) {
    if (multiply(bytes, info.shape[d], kMaxTileBytes)) continue;
    throw DatasetError(fmt::format("{}:{}: a tile of {}×{} is larger than any memory; use a smaller {}",
                                   info.file, short_path(info.path), tiling.y.size, tiling.x.size,
                                   spelled("tiles.size")));
  }
  info.max_shape = info.shape;
  return info;
}

}  // namespace h5feed
