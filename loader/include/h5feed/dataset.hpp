// SPDX-License-Identifier: Apache-2.0
// A dataset: which HDF5 datasets hold the samples and targets, and what one sample looks like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"
#include "h5feed/field.hpp"

namespace h5feed {

/// How the stored dimensions are read. Images are delivered as (N,C,H,W). `none` delivers dimensions as
/// stored. `automatic`: 1-D and 2-D datasets are `none`, a 3-D uint8 dataset is NHW, a 4-D one with exactly
/// one of axes 1 and −1 in {1,3,4} is NCHW or NHWC; anything else must be stated.
enum class InputLayout : std::uint8_t { automatic, nchw, nhwc, nhw, none };

/// What one sample is: a row of a dataset, or a dataset as a whole (a file or a group for each sample).
enum class SampleUnit : std::uint8_t { row, dataset };

/// Channels of decoded images. `rgb`, `bgr`: three of 8 bits; grey ones are repeated, alpha is left out, 16
/// bits are cut to 8, palettes and CMYK converted. `gray`: one of 8 bits. `unchanged`: as many as the first
/// image has, in the order R, G, B, alpha or grey, alpha, with its 8 or 16 bits, and not turned by EXIF;
/// palettes and CMYK become R, G, B also there.
enum class ImageColor : std::uint8_t { rgb, bgr, gray, unchanged };

/// How variable-length uint8 becomes images: JPEG, PNG and what else OpenCV decodes, turned as EXIF says.
struct ImageOptions {
  /// Size of all samples; both or none. Images of other sizes are scaled to it, without regard to their
  /// proportions: averaged over areas where both dimensions shrink, else bilinearly. 0: the size of
  /// the first image, which all others need to have. OpenCV scales on threads of its own to
  /// sizes of 98,304 pixels and more, and else on the worker's.
  std::int64_t height = 0;
  std::int64_t width = 0;
  ImageColor color = ImageColor::rgb;
  /// Path of a table (N,3) of integers, each the shape of a sample whose bytes are pixels, not an encoded
  /// image: (H,W,C), or (C,H,W) with `InputLayout::nchw`; without a layout, whichever has 1, 3 or 4
  /// where C stands. `color` is left aside: channels stay as stored. Empty: encoded images.
  std::string shapes;
};

/// Pixels of a tile, or between tiles, down and across. Converts from one number for both.
struct TileExtent {
  std::int64_t height = 0;
  std::int64_t width = 0;

  constexpr TileExtent() = default;
  constexpr TileExtent(std::int64_t both)
      : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  constexpr TileExtent(std::int64_t down, std::int64_t across) : height(down), width(across) {}
};

/// What happens at the lower and right edges of an image that tiles do not divide evenly. `drop`: only tiles
/// that lie in the image, the rest of it is never delivered. `pad`: the last tiles reach over the edge, where
/// their pixels are 0 as stored, before `normalize`. `shift`: the last tiles are moved back until they end
/// with the image, and overlap their neighbours.
enum class TileEdges : std::uint8_t { drop, pad, shift };

/// Samples are windows of the images that the dataset holds. They are numbered row by row from the upper left
/// corner, image after image, so that in sequential order, and within a window of `chunk:K`, the tiles of an
/// image stay together and each of its chunks is decoded once, as long as the cache holds those that a row
/// of tiles touches.
struct TileOptions {
  /// At least 1×1. Larger than the image only with `TileEdges::pad`.
  TileExtent size;
  /// From one tile to the next, at least 1×1; larger ones leave gaps. Default: `size`, or what `overlap`
  /// says.
  std::optional<TileExtent> stride = {};
  /// Pixels that neighbours have in common, less than `size`. Excludes `stride`.
  std::optional<TileExtent> overlap = {};
  TileEdges edges = TileEdges::drop;
};

/// How each image is cut.
struct TileGrid {
  std::int64_t image_height = 0;
  std::int64_t image_width = 0;
  std::int64_t rows = 0;     ///< of tiles in an image
  std::int64_t columns = 0;  ///< likewise

  std::int64_t per_image() const noexcept { return rows * columns; }
};

/// Something else that belongs to each sample beside data and target: boxes, a mask, a second camera, text.
/// A field has as many rows as the data (one a group or file with `SampleUnit::dataset`; with tiles, one an
/// image). Numbers of variable length are read as samples that differ in length.
struct FieldOptions {
  /// Under which `Batch::field` finds it; not empty, each once.
  std::string name;
  /// Path of its dataset, or a pattern, as `DatasetOptions::data`. Empty: `name`.
  std::string data = {};
  /// Files of it, as `DatasetOptions::files`. Empty: the files of the samples.
  std::vector<std::filesystem::path> files = {};
  /// What one sample of it is. Default: as of the data.
  std::optional<SampleUnit> sample = {};
  /// NCHW, NHWC and NHW deliver images as (B,C,H,W); `none` as stored.
  InputLayout input_layout = InputLayout::none;
  /// Set: bytes of variable length are images to decode; unset: numbers.
  std::optional<ImageOptions> images = {};
  Collate collate = Collate::stack;
  /// Default: as stored, with `normalize` f32. A value that an integer type cannot hold is refused: when a
  /// loader is made for fields that are read at open (64 MiB and less), when it is read for samples that
  /// differ in length. Other fields convert as C++ does. Floats round, as NumPy and PyTorch round them: what
  /// is too large for the type becomes infinite, as the data and targets do.
  std::optional<DType> dtype = {};
  std::optional<Normalize> normalize = {};
};

/// What to open. Several files, and several datasets of a file, are one: their samples follow each other in
/// the order of the list, of a pattern in natural order (traj_2 before traj_10). They need the same type and
/// the same shape but for the first dimension.
struct DatasetOptions {
  /// HDF5 files, or patterns of their names with the wildcards of glob(7): "train/*.h5".
  std::vector<std::filesystem::path> files;
  /// Path of the samples within each file, (N,…). Wildcards stand for names within one group, as in
  /// "data/demo_*/obs/image"; every group they match needs the rest of the path. Empty: the only dataset of
  /// the first file that looks like images.
  std::string data;
  /// Path of the targets, (N) or (N,…), or a pattern of them. Empty: no target.
  std::string target;
  /// Files of the targets, as `files`. Empty: the files of the samples, each with as many targets as samples.
  std::vector<std::filesystem::path> target_files;
  /// What one sample is, and one target.
  SampleUnit sample = SampleUnit::row;
  InputLayout input_layout = InputLayout::automatic;
  /// The data in 0 … 1: uint8 divided by 255, uint16 by 65535, delivered as float32 where `output_dtype` does
  /// not say otherwise, and before `normalize` takes its mean and std; floats as stored. `open` throws
  /// OptionError for other integers, whose range no convention gives.
  bool unit_range = false;
  /// Where `data` holds images of variable length.
  ImageOptions images = {};
  /// Set: samples are tiles of the images. Needs NCHW, NHWC or NHW, stated or recognised; a dataset that is a
  /// single image is read with `SampleUnit::dataset`. A target of the images' height and width, such as a
  /// mask, is cut likewise, as (N,H,W) or in the layout of the data; any other belongs to all tiles of its
  /// image.
  std::optional<TileOptions> tiles = {};
  /// Any number of further fields, delivered as `Batch::fields`.
  std::vector<FieldOptions> fields = {};
};

/// Where a sample is stored.
struct SampleOrigin {
  std::string file;
  std::string path;      ///< of its dataset in the file
  std::int64_t row = 0;  ///< in that dataset; 0 where the dataset is the sample
  /// Of a tile: the number of its image among all that were opened, and where in it the tile begins.
  /// Otherwise the number of the sample, and 0.
  std::int64_t image = 0;
  std::int64_t y = 0;
  std::int64_t x = 0;
};

struct DatasetAccess;
struct DatasetState;
class SampleSubset;

/// An opened dataset: metadata, the address of every chunk, and small fields (labels) in memory; or some of
/// its samples. A cheap handle on immutable shared state: copy it freely, use it from any thread. Loaders
/// of one opened dataset, and of its subsets, share the index and the chunk cache.
class H5FEED_EXPORT Dataset {
 public:
  /// Blocks for the metadata and for small fields (at most 64 MiB decoded), which are read whole. Takes no
  /// file lock. Of several files none stays open but for reading: at most half the descriptors that the
  /// process may have, 16,384 at most; other files are opened again when they are needed. Virtual datasets of
  /// whole rows are read from their sources. Time and memory are linear in the number of datasets.
  /// Throws FileError, DatasetError, ChunkError, OptionError.
  static Dataset open(const DatasetOptions& options);

  /// Copies share the state. Moving copies too, so that a moved-from handle stays usable.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  /// Number of samples at the time of opening; of the subset, where this is one.
  std::int64_t size() const noexcept;

  /// Opens the same again, with the samples that were appended since, and files that the patterns match by
  /// now. Loaders made before keep theirs; a subset stays the same samples. Blocks and throws as `open`, then
  /// the handle is as it was. Not while another thread uses this handle. A writer that appends should write
  /// whole chunks where it compresses: one that it writes again may move, under readers of the old one.
  void refresh();

  /// Where a sample is stored; `sample` is a number as in a batch's `indices`. O(log n) in the number of
  /// datasets. Throws OptionError for a number outside.
  SampleOrigin origin(std::int64_t sample) const;

  /// The samples with these numbers (from 0 to `size()` − 1), in this order when read sequentially. A batch's
  /// `indices` remain sample numbers of the file. 8 bytes a sample. Throws OptionError for a number outside,
  /// or one that comes twice (use a sampler for repeats), or an empty list.
  Dataset subset(std::span<const std::int64_t> samples) const;

  /// Disjoint random parts, in file order when read sequentially; a function of `seed` alone. `fractions`
  /// are above 0 and sum to 1; part i gets ⌊n · fractions[i]⌋ samples, and what is left over goes one each
  /// to the first parts, as in PyTorch's `random_split`. Throws OptionError, also for a part without samples.
  std::vector<Dataset> split(std::span<const double> fractions, std::uint64_t seed) const;
  std::vector<Dataset> split(std::initializer_list<double> fractions, std::uint64_t seed) const {
    return split(std::span<const double>(fractions.begin(), fractions.size()), seed);
  }

  /// Shape of one sample as delivered: (C,H,W) for images, as stored with `InputLayout::none`.
  const std::vector<std::int64_t>& sample_shape() const& noexcept;
  std::vector<std::int64_t> sample_shape() const&& { return sample_shape(); }
  /// How images were cut into samples; empty without `DatasetOptions::tiles`.
  std::optional<TileGrid> tile_grid() const noexcept;
  /// Stored element type of the data.
  DType dtype() const noexcept;
  /// `DatasetOptions::unit_range`.
  bool unit_range() const noexcept;
  bool has_target() const noexcept;

  /// The state, for h5feed's own parts; not a stable interface.
  const std::shared_ptr<const DatasetState>& state() const noexcept { return state_; }
  /// Null: all samples.
  const std::shared_ptr<const SampleSubset>& chosen() const noexcept { return chosen_; }

 private:
  friend struct DatasetAccess;
  explicit Dataset(std::shared_ptr<const DatasetState> state) : state_(std::move(state)) {}
  std::shared_ptr<const DatasetState> state_;
  std::shared_ptr<const SampleSubset> chosen_;
};

}  // namespace h5feed
