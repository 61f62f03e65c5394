// SPDX-License-Identifier: Apache-2.0
// Tiles: samples that are windows of images, or patches of volumes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace h5feed {

/// Extent of a tile, or of the distance between tiles, in pixels. Converts implicitly from one number for
/// height and width.
struct TileExtent {
  /// Extent along the depth of a volume, in pixels. 0: two dimensions.
  std::int64_t depth = 0;
  /// Vertical extent in pixels.
  std::int64_t height = 0;
  /// Horizontal extent in pixels.
  std::int64_t width = 0;

  /// Creates an extent of 0×0.
  constexpr TileExtent() = default;
  /// Creates an extent of two dimensions of `both` in each direction.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr TileExtent(std::int64_t both) : height(both), width(both) {}
  /// Creates an extent of `down` by `across` pixels.
  constexpr TileExtent(std::int64_t down, std::int64_t across) : height(down), width(across) {}
  /// Creates an extent of three dimensions: `deep` by `down` by `across` pixels.
  constexpr TileExtent(std::int64_t deep, std::int64_t down, std::int64_t across)
      : depth(deep), height(down), width(across) {}
};

/// Treatment of the far edges (back, lower and right) of an image whose extent is no multiple of the tile's.
/// `drop`: delivers only tiles that lie inside the image; the rest of the image is never delivered. `pad`:
/// the last tiles extend beyond the edge, with pixels of stored value 0 there, before `normalize`. `shift`:
/// the last tiles are moved back to end at the edge, and overlap their neighbours. Tiles at random places
/// always lie inside the image; one that is smaller than a tile is refused, or with `pad` lies in the middle
/// of the tile, with zeros on both sides.
enum class TileEdges : std::uint8_t { drop, pad, shift };

/// Flips and turns of tiles, drawn from (seed, epoch, sample number) and applied alike to the data and to the
/// target and fields that are cut like it, before `transform`, `augment` and `normalize`. `none`: tiles are
/// delivered as they are. `flips`: each axis is mirrored with probability 1/2. `planar`: in addition height
/// and width are exchanged with probability 1/2, so that all 4 turns by 90° in their plane come equally
/// often; tiles need equal height and width. `all`: all axes are exchanged in a random order, so that all
/// turns by 90° come equally often; tiles need equal extents.
enum class TileTurns : std::uint8_t { none, flips, planar, all };

/// Splits the images of a dataset into tiles, which are the samples: all tiles of a grid, or some at random
/// places. Images may differ in extent if they are in different datasets or files. Tiles are numbered image
/// after image; those of a grid row by row from the first corner, in volumes layer by layer. In sequential
/// order, and within a window of `chunk:K`, the tiles of an image stay together, and each of its chunks is
/// decoded once if the cache holds the chunks that a row (in volumes a layer) of tiles touches; of tiles at
/// random places those that all tiles of the image touch.
struct TileOptions {
  /// Size of a tile in pixels, at least 1×1, with a depth of at least 1 for volumes; larger than an image
  /// only with `TileEdges::pad`.
  TileExtent size;
  /// Distance from one tile to the next in pixels, at least 1×1; a stride above `size` leaves gaps. Excludes
  /// `overlap` and `per_image`. Default: `size`, less `overlap`.
  std::optional<TileExtent> stride = {};
  /// Pixels shared by neighbouring tiles, less than `size`. Excludes `stride` and `per_image`.
  std::optional<TileExtent> overlap = {};
  /// Tiling at the far edges of an image.
  TileEdges edges = TileEdges::drop;
  /// Number of tiles of each image at random places, drawn again in each epoch: a function of (seed, epoch,
  /// sample number), the same for data, target and fields. 0: the tiles of a grid.
  std::int64_t per_image = 0;
  /// Probability, 0 … 1, that a tile at a random place is centred on a labelled pixel, as far as it stays
  /// inside the image: of a class drawn evenly from those in the image, and of its pixels evenly from at most
  /// 10,000 that were drawn at `open`. Images without labelled pixels, and the other tiles, take any place
  /// evenly. Needs `per_image`. `open` reads all labels for it, and keeps at most 32 MiB of places: fewer per
  /// class if images and classes are many.
  double foreground = 0;
  /// Smallest share, 0 … 1, of labelled pixels in a tile of a grid; tiles with less are not samples. Pixels
  /// beyond the edge count as not labelled. The other tiles keep the numbers of the whole grid; the dataset
  /// is then as a subset of them. Excludes `per_image`. `open` reads all labels for it. 0: all tiles.
  double min_foreground = 0;
  /// Name of the field that holds the labels for `foreground` and `min_foreground`: integers of one channel
  /// with the extents of the images. Values above 0 are classes; 0 and negative values are not labelled.
  /// Empty: the target.
  std::string labels = {};
  /// Flips and turns of the tiles.
  TileTurns turns = TileTurns::none;
};

/// Grid of tiles that an image is split into.
struct TileGrid {
  /// Depth of the image in pixels; 0 in two dimensions.
  std::int64_t image_depth = 0;
  /// Height of the image in pixels.
  std::int64_t image_height = 0;
  /// Width of the image in pixels.
  std::int64_t image_width = 0;
  std::int64_t layers = 1;   ///< layers of tiles of the image; 1 in two dimensions
  std::int64_t rows = 0;     ///< rows of tiles in a layer
  std::int64_t columns = 0;  ///< columns of tiles in a layer

  /// Returns the number of tiles of the image.
  std::int64_t per_image() const noexcept { return layers * rows * columns; }
};

}  // namespace h5feed
