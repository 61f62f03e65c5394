// Samples that are windows of images: where each begins, and which chunks it touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/dataset_info.hpp"

namespace h5feed {

/// The windows along one dimension of an image. Each function is O(1) or O(log count).
struct TileAxis {
  std::uint64_t extent = 1;  ///< of the image
  std::uint64_t size = 1;    ///< of a tile
  std::uint64_t stride = 1;
  std::uint64_t count = 1;
  bool inside = false;  ///< the last tile is moved back to end with the image

  /// Where a tile begins; never beyond the image's end.
  std::uint64_t begin(std::uint64_t tile) const noexcept;
  /// How much of a tile the image covers.
  std::uint64_t covered(std::uint64_t tile) const noexcept;

  /// [first, end).
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint64_t count() const noexcept { return end - first; }
  };
  /// The tiles that have a part in [begin, end) of the image.
  Run touching(std::uint64_t begin, std::uint64_t end) const noexcept;
};

/// How images are cut into tiles, which are numbered row by row, image after image. Immutable.
struct Tiling {
  TileAxis y;
  TileAxis x;
  std::size_t y_dimension = 1;             ///< of the stored dataset
  std::size_t x_dimension = 2;             ///< likewise
  std::vector<std::uint64_t> image_shape;  ///< of the stored dataset, the number of images included

  std::uint64_t per_image() const noexcept { return y.count * x.count; }
  /// A tile's number within its image.
  std::uint64_t within_image(std::uint64_t tile) const noexcept { return tile % per_image(); }
};

/// Throws OptionError for sizes and strides that no image could have.
void check_tile_options(const TileOptions& options);

/// Cuts the images of `info`. `layout` is decided. Throws OptionError for options that do not fit each other,
/// DatasetError for tiles that do not fit the images.
Tiling make_tiling(const DatasetInfo& info, InputLayout layout, const TileOptions& options);

/// What the tiles of `info` look like: a dataset with one row a tile. Throws DatasetError for more tiles, or
/// larger ones, than can be counted.
DatasetInfo tiles_of(DatasetInfo info, const Tiling& tiling);

}  // namespace h5feed
