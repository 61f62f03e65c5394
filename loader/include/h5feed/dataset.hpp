// SPDX-License-Identifier: Apache-2.0
// A dataset: which HDF5 datasets hold the samples and targets, and how they form samples.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/dtype.hpp"
#include "h5feed/episodes.hpp"
#include "h5feed/export.hpp"
#include "h5feed/field.hpp"
#include "h5feed/sparse.hpp"
#include "h5feed/tiles.hpp"

namespace h5feed {

/// Order of the stored dimensions. Images are delivered as (N,C,H,W), volumes (NCDHW, NDHWC, NDHW) as
/// (N,C,D,H,W). `none`: dimensions are delivered as stored. `automatic`: 1-D and 2-D datasets are `none`, a
/// 3-D uint8 dataset is NHW, and a 4-D dataset with exactly one of axes 1 and −1 in {1,3,4} is NCHW or NHWC;
/// any other dataset, volumes included, needs an explicit layout. With `SampleUnit::dataset` N is not stored.
enum class InputLayout : std::uint8_t { automatic, nchw, nhwc, nhw, none, ncdhw, ndhwc, ndhw };

/// Unit of storage of one sample: a row of a dataset, or a whole dataset (one file or group per sample).
enum class SampleUnit : std::uint8_t { row, dataset };

/// Which process calls libhdf5 to read metadata, and the data that only libhdf5 can read. `none`: this one.
/// `process`: a process of its own, h5feed-reader, which h5feed starts and limits: a file that makes libhdf5
/// crash, hang or fill the memory ends that process alone.
enum class Isolation : std::uint8_t { none, process };

/// Channels of decoded images. `rgb`, `bgr`: three channels of 8 bits; gray is repeated, alpha is dropped, 16
/// bits are reduced to 8, palettes and CMYK are converted. `gray`: one channel of 8 bits. `unchanged`: the
/// channels of the first image, in the order R, G, B, alpha or gray, alpha, with its 8 or 16 bits and without
/// the rotation of EXIF data (a TIFF is rotated); palettes and CMYK become R, G, B.
enum class ImageColor : std::uint8_t { rgb, bgr, gray, unchanged };

/// Decoding of variable-length uint8 into images: JPEG, PNG, WebP, BMP, TIFF, JPEG 2000, PBM, PGM and PPM,
/// rotated as the EXIF data of a JPEG or PNG, or the orientation of a TIFF, says; that of a WebP is ignored.
struct ImageOptions {
  /// Height of all samples in pixels; set both height and width, or neither. Images of other sizes are scaled
  /// without keeping their aspect ratio: by area averaging if both dimensions shrink, else bilinearly. 0: the
  /// size of the first image, which all others must have. OpenCV scales to sizes of 98,304 pixels and more on
  /// threads of its own, to smaller sizes on the worker.
  std::int64_t height = 0;
  /// Width of all samples in pixels; see `height`.
  std::int64_t width = 0;
  /// Channels of the decoded images.
  ImageColor color = ImageColor::rgb;
  /// Path of a table (N,3) of integers with the shape of each sample, if the bytes of a sample are pixels and
  /// not an encoded image. Shapes are (H,W,C), or (C,H,W) with `InputLayout::nchw`; with `automatic`, the
  /// axis of 1, 3 or 4 is C. With this table `color` has no effect: channels stay as stored. Empty: images
  /// are encoded.
  std::string shapes;
};

/// A field of each sample in addition to data and target: boxes, a mask, a second camera, text. A field has
/// as many rows as the data (one per group or file with `SampleUnit::dataset`, one per image with tiles).
/// Numbers of variable length are read as samples of different lengths.
struct FieldOptions {
  /// Unique, non-empty name, for `Batch::field`.
  std::string name;
  /// Path of the field's dataset, or a pattern, as for `DatasetOptions::data`. A categorical column of
  /// AnnData delivers its codes, as for `DatasetOptions::target`. Empty: `name`.
  std::string data = {};
  /// Files of the field, as for `DatasetOptions::files`. Empty: the files of the samples.
  std::vector<std::filesystem::path> files = {};
  /// Unit of storage of one sample of the field. Default: the unit of the data.
  std::optional<SampleUnit> sample = {};
  /// Order of the stored dimensions of the field. NCHW, NHWC and NHW deliver images as (B,C,H,W); NCDHW,
  /// NDHWC and NDHW deliver volumes as (B,C,D,H,W); `none` delivers dimensions as stored.
  InputLayout input_layout = InputLayout::none;
  /// Image decoding of bytes of variable length. Unset: the values are numbers.
  std::optional<ImageOptions> images = {};
  /// How the samples of the field form one tensor of a batch.
  Collate collate = Collate::stack;
  /// Element type of the field. Default: the stored type; f32 with `normalize`. If an integer type cannot
  /// hold a value, a field that is read at open (at most 64 MiB) throws when a loader is made, and samples of
  /// different lengths throw when they are read; other fields convert as C++ does. Floats round to nearest,
  /// and values too large for the type become infinite.
  std::optional<DType> dtype = {};
  /// Normalization of the field. Unset: values are not normalized.
  std::optional<Normalize> normalize = {};
  /// Rows of the field that a sample takes, as offsets from its anchor, as for `DatasetOptions::window`. With
  /// `EpisodeOptions::Index::datasets`, the field may have one row more than the data in every episode, such
  /// as the observation after the last action. Needs `FieldUnit::row` and samples of one shape.
  std::vector<std::int64_t> window = {};
  /// Rows of the field that belong to a sample. `episode` needs episodes. A field per episode or file is, by
  /// default, a whole dataset for each (`SampleUnit::dataset`); a field per episode of a table is a dataset
  /// with one row for each episode.
  FieldUnit per = FieldUnit::row;
};

/// Files and datasets to open. Several files, and several datasets of a file, form one dataset: their samples
/// follow each other in the order of the list; matches of a pattern in natural order (traj_2 before traj_10).
/// They must have the same type and, except for the first dimension, the same shape; with `tiles` the images
/// of different datasets may differ in height, width and depth.
struct DatasetOptions {
  /// HDF5 files, or patterns of their names with the wildcards of glob(7): "train/*.h5".
  std::vector<std::filesystem::path> files;
  /// Path of the samples within each file, (N,…). Wildcards match names within one group, as in
  /// "data/demo_*/obs/image"; every matching group must contain the rest of the path. Empty: the only dataset
  /// of the first file that looks like images. A group that holds a sparse matrix, "X" or "layers/counts" of
  /// AnnData and "matrix" of 10x Genomics, has the cells as samples; see `sparse`.
  std::string data;
  /// Path of the targets, (N) or (N,…), or a pattern of paths. A categorical column of AnnData, such as
  /// "obs/cell_type", delivers its codes, −1 for missing values; `Dataset::categories` has their names.
  /// Empty: no target.
  std::string target;
  /// Files of the targets, as for `files`. Empty: the files of the samples, each with as many targets as
  /// samples.
  std::vector<std::filesystem::path> target_files;
  /// Unit of storage of one sample, and of one target.
  SampleUnit sample = SampleUnit::row;
  /// Order of the stored dimensions of the data.
  InputLayout input_layout = InputLayout::automatic;
  /// Scales the data to 0 … 1: uint8 is divided by 255, uint16 by 65535, before `normalize` applies its mean
  /// and std. Delivered as float32 unless `output_dtype` is set. Floats stay as stored. `open` throws
  /// OptionError for other integers, whose range is not defined by convention.
  bool unit_range = false;
  /// Image decoding, if `data` holds bytes of variable length.
  ImageOptions images = {};
  /// Splits the images into tiles, which are the samples. Needs NCHW, NHWC or NHW, stated or detected, or for
  /// volumes NCDHW, NDHWC or NDHW; a dataset that is a single image needs `SampleUnit::dataset`. A target
  /// with the height, width and depth of the images, such as a mask, is tiled in the same way, without
  /// channels or with channels before or after these; any other target belongs to all tiles of its image.
  std::optional<TileOptions> tiles = {};
  /// Episodes of the rows, for windows. Excludes `tiles`; needs `SampleUnit::row`. Unset: with a window, each
  /// dataset is an episode.
  std::optional<EpisodeOptions> episodes = {};
  /// Rows of the data that a sample takes: offsets from its anchor, ascending, such as {-2, -1, 0}. Samples
  /// are delivered as (B,L,…), in the order of the offsets. Empty: the row of the anchor, without a dimension
  /// of time.
  std::vector<std::int64_t> window = {};
  /// Channels of the data that are read, each once and in this order; the others are left out. A chunk that
  /// holds none of them is not read. Needs a layout with channels, or `none` with at least two dimensions,
  /// the second of which is then that of the channels. Excludes `tiles` and encoded images. Empty: all
  /// channels.
  std::vector<std::int64_t> channels = {};
  /// Rows of the target that a sample takes, as `window`; {1, 2, 3, 4, 5, 6} are the next six rows.
  std::vector<std::int64_t> target_window = {};
  /// How the rows of a sparse matrix are delivered. Unset: as CSR if `data` is a sparse matrix. Throws
  /// OptionError if it is none.
  std::optional<SparseOptions> sparse = {};
  /// Further fields of each sample, delivered as `Batch::fields`.
  std::vector<FieldOptions> fields = {};
  /// Directory on a local disk that the files are copied to and read from, for files on slow storage. `open`
  /// copies what is not there yet or has changed (size, modification time, inode), and blocks meanwhile;
  /// processes of one user and host that open the same files wait for one copy. Messages and origins name the
  /// original files, and saved states fit both. At least 5 % of the directory's file system, at most 1 GiB,
  /// stays free. Data that refers to other files, except virtual datasets of regular selections, is read from
  /// the original files. Throws FileError if the directory does not exist or cannot be written, if its space
  /// does not suffice, or if a file changes while it is copied. Empty: files are read where they are.
  std::filesystem::path stage_dir = {};
  /// Which process calls libhdf5 for the files. With `Isolation::process`, calls throw IsolationError if that
  /// process crashes, exceeds a limit or answers with nonsense, and FileError if it cannot be started. It
  /// runs as long as the dataset reads data through libhdf5, else until `open` returns.
  Isolation isolation = Isolation::none;
  /// Longest time that the process of `isolation` may take for one request, such as the chunk index of a
  /// dataset, or one chunk; above 0.
  std::chrono::milliseconds isolation_timeout = std::chrono::seconds(60);
  /// Address space that the process of `isolation` may take, at least 256 MiB; 0: no limit.
  std::uint64_t isolation_memory_bytes = std::uint64_t{4} << 30;
};

/// Storage location of a sample.
struct SampleOrigin {
  /// Path of the HDF5 file.
  std::string file;
  std::string path;      ///< path of the dataset in the file
  std::int64_t row = 0;  ///< row of the dataset; 0 if the sample is a whole dataset
  /// With tiles, the number of the image among all opened images. Otherwise the number of the sample.
  std::int64_t image = 0;
  /// First row of a tile in its image, in pixels; negative if zeros precede a small image. 0 without tiles,
  /// and from `Dataset::origin` if the place is drawn in each epoch, which `Batch::origins` knows.
  std::int64_t y = 0;
  /// First column of a tile in its image, in pixels; negative if zeros precede a small image. 0 without
  /// tiles, and from `Dataset::origin` if the place is drawn in each epoch.
  std::int64_t x = 0;
  /// First layer of a tile in its volume, in pixels; negative if zeros precede a small volume. 0 in two
  /// dimensions, without tiles, and from `Dataset::origin` if the place is drawn in each epoch.
  std::int64_t z = 0;
  /// With episodes, the number of the episode among those of all files that take part. Otherwise −1.
  std::int64_t episode = -1;
  /// With episodes, the place of the anchor in its episode, in rows; `row` is the row of the anchor then. −1
  /// without episodes, and from `Dataset::origin` if the anchor is drawn in each epoch, which
  /// `Batch::origins` knows; `row` is then the first row of the episode.
  std::int64_t frame = -1;
  /// Number of the set in the list given to `mix`; 0 for other datasets.
  std::int64_t set = 0;
};

/// Unit that a split never divides. `sample`: one sample. `part`: all samples of an image (with tiles) or of
/// an episode, so that the samples of one part never validate a training on the other. `automatic`: `part`
/// if samples are tiles or in episodes, else `sample`.
enum class SplitBy : std::uint8_t { automatic, sample, part };

struct DatasetAccess;
struct DatasetState;
class SampleSubset;

/// An opened dataset, or a subset of its samples: metadata, the address of every chunk, and small fields
/// (labels) in memory. A cheap handle that shares ownership of immutable state: copy it freely, use it from
/// any thread. Loaders of one opened dataset and of its subsets share the index and one memory budget; those
/// with `CachePolicy::lru` also share the chunk cache.
class H5FEED_EXPORT Dataset {
 public:
  /// Opens the dataset. Blocks while it reads the metadata and all of each small field (at most 64 MiB
  /// decoded). Takes no file lock. Of several files, each is open only while it is read: at most half the
  /// file descriptors that the process may have, 16,384 at most, stay open, and other files are reopened on
  /// demand. Virtual datasets of regular selections are read from their sources. Time and memory are linear
  /// in the number of datasets. Throws FileError if a file cannot be opened or read, DatasetError if a
  /// dataset is missing or cannot provide samples, ChunkError if a resident field cannot be decoded,
  /// OptionError if an option is invalid.
  static Dataset open(const DatasetOptions& options);

  /// Copies the handle, which shares the state. A move also copies, so that a moved-from handle stays usable.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  /// Returns the number of samples when the dataset was opened; of a subset, the number of its samples.
  std::int64_t size() const noexcept;

  /// Opens the dataset again, with the samples appended since and the files that the patterns match now.
  /// Existing loaders keep the earlier state; samples of a chunk that was moved as rows were appended are
  /// then a FileError of theirs. A subset keeps its samples. Blocks and throws as `open`, and throws
  /// DatasetError if a subset has samples that no longer exist, or whose numbers have changed because samples
  /// were added to an earlier file or dataset; the handle is then unchanged. Not thread-safe: no other thread
  /// may use this handle meanwhile. A writer that appends compressed data should write whole chunks, which
  /// never move.
  void refresh();

  /// Returns the storage location of a sample; `sample` is a number as in `Batch::indices`. O(log n) in the
  /// number of datasets. Throws OptionError for a number out of range.
  SampleOrigin origin(std::int64_t sample) const;

  /// Returns a dataset of the samples with these numbers (from 0 to `size()` − 1), in this order if read
  /// sequentially. `Batch::indices` remain sample numbers of the whole dataset. Takes 8 bytes per sample.
  /// Throws OptionError for a number out of range, a repeated number (use a sampler for repeats), and an
  /// empty list.
  Dataset subset(std::span<const std::int64_t> samples) const;

  /// Splits the dataset into disjoint random parts, each in file order if read sequentially; a function of
  /// `seed` alone. `fractions` are above 0 and sum to 1; part i gets ⌊n · fractions[i]⌋ of the n samples, or
  /// of the n images or episodes (see `SplitBy`), and those that remain go one each to the first parts, as in
  /// PyTorch's `random_split`. Throws OptionError for other fractions, for a part that would get none, for
  /// `SplitBy::part` without tiles and episodes, and for a series (`EpisodeOptions::Index::series`), which is
  /// one episode, unless `by` is `SplitBy::sample`.
  std::vector<Dataset> split(std::span<const double> fractions, std::uint64_t seed,
                             SplitBy by = SplitBy::automatic) const;
  /// Splits as the overload for a span does.
  std::vector<Dataset> split(std::initializer_list<double> fractions, std::uint64_t seed,
                             SplitBy by = SplitBy::automatic) const {
    return split(std::span<const double>(fractions.begin(), fractions.size()), seed, by);
  }

  /// Returns the shape of one sample as delivered: (C,H,W) for images, (C,D,H,W) for volumes, the stored
  /// shape with `InputLayout::none`; with a window the number of its rows first.
  const std::vector<std::int64_t>& sample_shape() const& noexcept;
  /// Returns a copy of the shape, for a temporary dataset.
  std::vector<std::int64_t> sample_shape() const&& { return sample_shape(); }
  /// Returns how an image is split into tiles; empty without `DatasetOptions::tiles`, and with tiles at
  /// random places. Images are numbered as in `SampleOrigin::image`. Throws OptionError for a number out of
  /// range.
  std::optional<TileGrid> tile_grid(std::int64_t image = 0) const;
  /// Returns the number of opened images that tiles are cut from; 0 without `DatasetOptions::tiles`.
  std::int64_t num_images() const noexcept;
  /// Returns the number of episodes that take part; 0 without `DatasetOptions::episodes` and windows.
  std::int64_t num_episodes() const noexcept;
  /// Returns how many tiles of the grid `TileOptions::min_foreground` left out.
  std::int64_t tiles_left_out() const noexcept;
  /// Returns the stored element type of the data.
  DType dtype() const noexcept;
  /// Returns `DatasetOptions::unit_range`.
  bool unit_range() const noexcept;
  /// Returns whether the dataset has a target.
  bool has_target() const noexcept;
  /// Returns whether the samples are delivered as CSR, in `Batch::sparse` instead of `Batch::data`.
  bool delivers_csr() const noexcept;
  /// Returns the names of the codes of a categorical target, or of a named field, in the order of the codes;
  /// empty if it is not categorical. Throws OptionError for a name that no field has.
  const std::vector<std::string>& categories(std::string_view field = {}) const&;
  /// Returns a copy of the names, for a temporary dataset.
  std::vector<std::string> categories(std::string_view field = {}) const&& { return categories(field); }

 private:
  friend struct DatasetAccess;
  explicit Dataset(std::shared_ptr<const DatasetState> state) : state_(std::move(state)) {}
  std::shared_ptr<const DatasetState> state_;
  std::shared_ptr<const SampleSubset> chosen_;
};

}  // namespace h5feed
