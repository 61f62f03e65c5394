// SPDX-License-Identifier: Apache-2.0
// Tiling: samples that are windows of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed {

/// The windows along one dimension of an image, in pixels. Each function is O(1) or O(log count).
struct TileAxis {
  std::uint64_t extent = 1;  ///< Extent of the image
  std::uint64_t size = 1;    ///< Extent of a tile
  /// Distance between the beginnings of neighbouring tiles.
  std::uint64_t stride = 1;
  /// Number of tiles.
  std::uint64_t count = 1;
  bool inside = false;  ///< The last tile is moved back to end at the edge of the image

  /// Returns the first pixel of a tile, which is inside the image.
  std::uint64_t begin(std::uint64_t tile) const noexcept;
  /// Returns how many pixels of a tile are inside the image.
  std::uint64_t covered(std::uint64_t tile) const noexcept;

  /// The half-open range of tiles [first, end).
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint64_t count() const noexcept { return end - first; }
  };
  /// Returns the tiles that overlap pixels [begin, end) of the image.
  Run touching(std::uint64_t begin, std::uint64_t end) const noexcept;
};

/// How images are cut into tiles. Tiles are numbered row by row, image after image. Immutable and
/// thread-safe.
struct Tiling {
  TileAxis y;
  TileAxis x;
  std::size_t y_dimension = 1;             ///< Dimension of the height in the stored dataset
  std::size_t x_dimension = 2;             ///< Dimension of the width in the stored dataset
  std::vector<std::uint64_t> image_shape;  ///< Shape of the stored dataset, number of images included

  /// Number of tiles per image.
  std::uint64_t per_image() const noexcept { return y.count * x.count; }
  /// Returns the number of a tile within its image.
  std::uint64_t within_image(std::uint64_t tile) const noexcept { return tile % per_image(); }
};

/// Throws OptionError for sizes, strides and overlaps that are out of range or contradict each other.
void check_tile_options(const TileOptions& options);

/// Computes the tiling of the images of `info`. `layout` is not `automatic`. Throws OptionError if the
/// options contradict each other or the layout has no height and width, DatasetError if tiles do not fit into
/// the images.
Tiling make_tiling(const DatasetInfo& info, InputLayout layout, const TileOptions& options);

/// Returns the description of the tiles of `info`: a dataset with one row per tile. Throws DatasetError for
/// more tiles, or larger ones, than can be counted.
DatasetInfo tiles_of(DatasetInfo info, const Tiling& tiling);

}  // namespace h5feed
