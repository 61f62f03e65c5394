// SPDX-License-Identifier: Apache-2.0
// From the options of tiles to the tiling of a dataset.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/option_spelling.hpp"
#include "dataset/tiles/tiling.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

constexpr std::int64_t kMaxSide = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxPerImage = std::int64_t{1} << 31;

std::string text(const TileExtent& extent) {
  if (extent.depth == 0) return fmt::format("{}×{}", extent.height, extent.width);
  return fmt::format("{}×{}×{}", extent.depth, extent.height, extent.width);
}

void check_sides(const char* name, const TileExtent& extent, std::int64_t least) {
  for (const std::int64_t side : {extent.height, extent.width}) {
    if (side >= least && side <= kMaxSide) continue;
    throw OptionError(fmt::format("{} must be {} to {} in height and width; got {}", spelled(name), least,
                                  kMaxSide, text(extent)));
  }
  if (extent.depth < 0 || extent.depth > kMaxSide) {
    throw OptionError(fmt::format("{} must be {} to {} in depth, or 0 in two dimensions; got {}",
                                  spelled(name), least, kMaxSide, text(extent)));
  }
}

// Throws unless `value` is a number of 0 … 1.
void check_share(const char* name, double value) {
  if (value >= 0 && value <= 1) return;
  throw OptionError(fmt::format("{} must be 0 to 1; got {}", spelled(name), value));
}

[[noreturn]] void refuse_together(const char* one, const char* other, const char* why) {
  throw OptionError(
      fmt::format("{} and {} exclude each other: {}; set one of them", spelled(one), spelled(other), why));
}

}  // namespace

void check_tile_options(const TileOptions& options) {
  check_sides("tiles.size", options.size, 1);
  if (options.stride && options.overlap)
    throw OptionError(fmt::format("{} and {} exclude each other; set one of them", spelled("tiles.stride"),
                                  spelled("tiles.overlap")));
  if (options.stride) check_sides("tiles.stride", *options.stride, 1);
  if (options.overlap) {
    check_sides("tiles.overlap", *options.overlap, 0);
    if (options.overlap->height >= options.size.height || options.overlap->width >= options.size.width ||
        options.overlap->depth >= std::max<std::int64_t>(1, options.size.depth)) {
      throw OptionError(fmt::format("{} {} must be smaller than {} {}", spelled("tiles.overlap"),
                                    text(*options.overlap), spelled("tiles.size"), text(options.size)));
    }
  }
  if (options.per_image < 0 || options.per_image > kMaxPerImage) {
    throw OptionError(fmt::format("{} must be 0 to {}; got {}", spelled("tiles.per_image"), kMaxPerImage,
                                  options.per_image));
  }
  check_share("tiles.foreground", options.foreground);
  check_share("tiles.min_foreground", options.min_foreground);
  if (options.per_image > 0) {
    constexpr const char* kWhy = "tiles at random places form no grid";
    if (options.stride) refuse_together("tiles.per_image", "tiles.stride", kWhy);
    if (options.overlap) refuse_together("tiles.per_image", "tiles.overlap", kWhy);
    if (options.min_foreground > 0) {
      refuse_together("tiles.per_image", "tiles.min_foreground",
                      "tiles are chosen by their labels only in a grid");
    }
  } else if (options.foreground > 0) {
    throw OptionError(fmt::format("{} is for tiles at random places; set {} to their number in each image",
                                  spelled("tiles.foreground"), spelled("tiles.per_image")));
  }
  if (!options.labels.empty() && options.foreground == 0 && options.min_foreground == 0) {
    throw OptionError(fmt::format("{} \"{}\" is used by {} and {} only; set one of them, or leave it unset",
                                  spelled("tiles.labels"), options.labels, spelled("tiles.foreground"),
                                  spelled("tiles.min_foreground")));
  }
  const bool turns_planes = options.turns == TileTurns::planar || options.turns == TileTurns::all;
  const bool square = options.size.height == options.size.width;
  const bool cube = options.size.depth == 0 || options.size.depth == options.size.height;
  if (turns_planes && (!square || (options.turns == TileTurns::all && !cube))) {
    throw OptionError(fmt::format("{} turns tiles by 90° and needs equal extents; {} is {}; use {}",
                                  spelled("tiles.turns", options.turns == TileTurns::all ? "all" : "planar"),
                                  spelled("tiles.size"), text(options.size),
                                  spelled("tiles.turns", square ? "planar" : "flips")));
  }
}

std::optional<PerAxis<std::size_t>> image_dimensions(InputLayout layout) noexcept {
  switch (layout) {
    case InputLayout::nchw:
      return PerAxis<std::size_t>{0, 2, 3};
    case InputLayout::nhwc:
    case InputLayout::nhw:
      return PerAxis<std::size_t>{0, 1, 2};
    case InputLayout::ncdhw:
      return PerAxis<std::size_t>{2, 3, 4};
    case InputLayout::ndhwc:
    case InputLayout::ndhw:
      return PerAxis<std::size_t>{1, 2, 3};
    case InputLayout::none:
    case InputLayout::automatic:
      break;
  }
  return std::nullopt;
}

Tiling make_tiling(std::span<const JoinedPart> images, const DatasetInfo& whole, InputLayout layout,
                   const TileOptions& options) {
  check_tile_options(options);
  const std::optional<PerAxis<std::size_t>> dimensions = image_dimensions(layout);
  const std::string place = fmt::format("{}:{}", whole.file, short_path(whole.path));
  if (!dimensions) {
    throw OptionError(
        fmt::format("{}: tiles need to know which dimensions are height and width; state it: "
                    "{}, NHWC or NHW",
                    place, spelled("input_layout", "NCHW")));
  }
  Tiling::Rule rule{.edges = options.edges,
                    .drawn = static_cast<std::uint64_t>(options.per_image),
                    .foreground = options.foreground,
                    .turns = options.turns,
                    .volumes = (*dimensions)[0] > 0};
  TileExtent stride = options.stride.value_or(options.size);
  if (options.overlap) {
    stride = {options.size.depth - options.overlap->depth, options.size.height - options.overlap->height,
              options.size.width - options.overlap->width};
  }
  for (const auto& [name, extent] : {std::pair("tiles.size", options.size), {"tiles.stride", stride}}) {
    if (rule.volumes && extent.depth == 0) {
      throw OptionError(
          fmt::format("{}: {} {} has no depth, and the images are volumes; give depth, height and "
                      "width (a depth of 1 for single layers)",
                      place, spelled(name), text(extent)));
    }
    if (!rule.volumes && extent.depth > 0) {
      throw OptionError(
          fmt::format("{}: {} {} has a depth, and the images have none; give height and width, or "
                      "state the layout of volumes: {}, NDHWC or NDHW",
                      place, spelled(name), text(extent), spelled("input_layout", "NCDHW")));
    }
  }
  const auto extents = [](const TileExtent& extent) {
    return PerAxis<std::uint64_t>{static_cast<std::uint64_t>(std::max<std::int64_t>(1, extent.depth)),
                                  static_cast<std::uint64_t>(extent.height),
                                  static_cast<std::uint64_t>(extent.width)};
  };
  rule.size = extents(options.size);
  rule.stride = extents(stride);
  return Tiling(rule, *dimensions, images);
}

}  // namespace h5feed
