// SPDX-License-Identifier: Apache-2.0
// Tiling: samples that are windows of images or patches of volumes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "h5feed/dataset.hpp"
#include "plan/epoch_key.hpp"
#include "store/format/dataset_info.hpp"
#include "store/read/joined_reader.hpp"

namespace h5feed {

class ForegroundPlaces;

/// Axes of an image: depth, height and width. An image of two dimensions has a depth of 1.
inline constexpr std::size_t kTileAxes = 3;
template <typename T>
using PerAxis = std::array<T, kTileAxes>;

/// The part of an image that a tile covers along one axis, in pixels.
struct TileWindow {
  std::uint64_t begin = 0;   ///< First covered pixel of the image
  std::uint64_t end = 0;     ///< End of the covered pixels
  std::uint64_t before = 0;  ///< Pixels of the tile in front of the image

  std::uint64_t count() const noexcept { return end - begin; }
};

/// The part of an image that a tile covers.
using TileBox = PerAxis<TileWindow>;

/// The windows of a grid along one axis of an image, in pixels. Each function is O(1) or O(log count).
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
  /// Returns the window of a tile of the grid.
  TileWindow window(std::uint64_t tile) const noexcept {
    return {begin(tile), begin(tile) + covered(tile), 0};
  }
  /// Returns the window that begins at `first`; of an image smaller than the tile, the whole image in the
  /// middle of the tile.
  TileWindow window_at(std::uint64_t first) const noexcept;
  /// Returns the number of places where a tile lies inside the image; 1 if the image is smaller.
  std::uint64_t places() const noexcept { return extent > size ? extent - size + 1 : 1; }

  /// The half-open range of tiles [first, end).
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    std::uint64_t count() const noexcept { return end - first; }
  };
  /// Returns the tiles that overlap pixels [begin, end) of the image.
  Run touching(std::uint64_t begin, std::uint64_t end) const noexcept;

  bool operator==(const TileAxis&) const = default;
};

/// Consecutive images of the same extent that are stored in chunks of the same shape.
struct TileRun {
  std::uint64_t first_image = 0;
  std::uint64_t first_tile = 0;
  std::uint64_t per_image = 1;  ///< Tiles of each image
  PerAxis<TileAxis> axes;       ///< With tiles at random places, `count` and `stride` have no meaning
  std::vector<std::uint64_t> image_shape;  ///< Stored shape of one image
  std::vector<std::uint64_t> chunk_shape;  ///< Shape of one image's part of a chunk
  std::vector<std::uint64_t> grid;         ///< Chunks of an image along each of its stored dimensions

  /// Returns the number of chunks that hold parts of the same images.
  std::uint64_t pieces() const noexcept;
};

/// Division of the images of a field into tiles, which are numbered image after image. Copies are cheap.
/// Immutable and thread-safe.
class Tiling {
 public:
  /// Tiling rule that applies to every image. Extents are in pixels; the depth is 1 for 2-D images.
  struct Rule {
    PerAxis<std::uint64_t> size = {1, 1, 1};
    PerAxis<std::uint64_t> stride = {1, 1, 1};
    TileEdges edges = TileEdges::drop;
    std::uint64_t drawn = 0;  ///< Tiles of each image at random places; 0: a grid
    double foreground = 0;    ///< Probability of a place from `Tiling::foreground_places`
    TileTurns turns = TileTurns::none;
    bool volumes = false;  ///< Images have a depth
  };

  /// `dimensions`: dimension of each axis in the stored dataset; 0 for the depth of two dimensions. Throws
  /// DatasetError if tiles do not fit into the images, or are more than can be counted.
  Tiling(const Rule& rule, const PerAxis<std::size_t>& dimensions, std::span<const JoinedPart> images);

  const Rule& rule() const noexcept { return rule_; }
  const PerAxis<std::size_t>& dimensions() const noexcept { return dimensions_; }
  std::span<const TileRun> runs() const noexcept { return *runs_; }
  std::uint64_t num_tiles() const noexcept { return num_tiles_; }
  std::uint64_t num_images() const noexcept { return num_images_; }
  /// Returns the number of tiles of every image; 0 if images differ in it.
  std::uint64_t per_image() const noexcept { return per_image_; }
  /// Returns the largest number of chunks that hold parts of the same images.
  std::uint64_t most_pieces() const noexcept { return most_pieces_; }
  /// Returns whether the place or the turn of a tile is drawn in each epoch.
  bool drawn() const noexcept { return rule_.drawn > 0 || rule_.turns != TileTurns::none; }

  /// Returns the run that holds a tile.
  const TileRun& run_of(std::uint64_t tile) const noexcept;
  /// Returns the run that holds an image.
  const TileRun& run_of_image(std::uint64_t image) const noexcept;
  /// Returns the image that a tile is cut from.
  std::uint64_t image_of(std::uint64_t tile) const noexcept;
  /// Returns the first tile of an image.
  std::uint64_t first_tile_of(std::uint64_t image) const noexcept;
  /// Returns the part of its image that a tile covers. `key` has no effect on the tiles of a grid.
  TileBox box(std::uint64_t tile, const EpochKey& key) const noexcept;

  /// Flips and order of the axes of a tile: axis `from[a]` becomes axis a, mirrored if `mirrored[a]`.
  struct Turn {
    PerAxis<std::size_t> from = {0, 1, 2};
    PerAxis<bool> mirrored = {};
    bool none() const noexcept { return *this == Turn{}; }
    bool operator==(const Turn&) const = default;
  };
  /// Returns the turn of a tile in an epoch.
  Turn turn(std::uint64_t tile, const EpochKey& key) const noexcept;

  /// Returns the tiling of a field whose images have the same extents; nullopt if they differ.
  std::optional<Tiling> of_field(const PerAxis<std::size_t>& dimensions,
                                 std::span<const JoinedPart> images) const;

  /// Returns this tiling with places for `Rule::foreground`, shared by the tilings of all fields.
  Tiling with_foreground(std::shared_ptr<const ForegroundPlaces> places) const;
  /// Returns the places for `Rule::foreground`; null if there are none.
  const ForegroundPlaces* foreground_places() const noexcept { return places_.get(); }

 private:
  Rule rule_;
  PerAxis<std::size_t> dimensions_;
  std::shared_ptr<const std::vector<TileRun>> runs_;
  std::shared_ptr<const ForegroundPlaces> places_;
  std::uint64_t num_tiles_ = 0;
  std::uint64_t num_images_ = 0;
  std::uint64_t per_image_ = 0;
  std::uint64_t most_pieces_ = 1;
};

/// Throws OptionError for sizes, strides, overlaps, numbers and shares that are out of range or contradict
/// each other.
void check_tile_options(const TileOptions& options);

/// Computes the tiling of the images, which `whole` describes together. `layout` is not `automatic`. Throws
/// OptionError if the options contradict each other or the layout has no height and width, or no depth where
/// tiles have one; DatasetError as the constructor of `Tiling`.
Tiling make_tiling(std::span<const JoinedPart> images, const DatasetInfo& whole, InputLayout layout,
                   const TileOptions& options);

/// Returns the dimensions of depth, height and width in datasets of this layout; nullopt if it has none.
std::optional<PerAxis<std::size_t>> image_dimensions(InputLayout layout) noexcept;

/// Returns the description of the tiles of `images`: a dataset with one row per tile. Throws DatasetError for
/// tiles that are too large to be counted.
DatasetInfo tiles_of(DatasetInfo images, const Tiling& tiling);

}  // namespace h5feed
