// SPDX-License-Identifier: Apache-2.0
// The state that copies of a Dataset handle share: readers, geometry, resident fields.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/files/storage_kind.hpp"
#include "base/mutex.hpp"
#include "dataset/geometry.hpp"
#include "dataset/ragged_field.hpp"
#include "dataset/sample_map.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/mixture.hpp"
#include "plan/mixture.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Fields of at most this many decoded bytes, as a rule labels, are read whole at open.
inline constexpr std::uint64_t kResidentFieldBytes = 64 * kMiB;

/// Numbers of the fields of a sample; named fields count from `kFirstNamed`.
inline constexpr std::size_t kData = 0, kTarget = 1, kFirstNamed = 2;

/// One HDF5 dataset, or several joined, whose rows belong to the samples.
struct Field {
  Field(std::shared_ptr<const ChunkReader> chunk_reader, SampleGeometry sample_geometry,
        const std::optional<Tiling>& tiling = {});

  const DatasetInfo& info() const noexcept { return reader->info(); }
  /// Returns whether all rows are in memory.
  bool is_resident() const noexcept { return resident.data() != nullptr; }
  /// Returns the row that belongs to a sample.
  std::uint64_t row_of(std::uint64_t sample) const noexcept {
    return images ? images->image_of(sample) : sample / samples_per_row;
  }

  std::shared_ptr<const ChunkReader> reader;
  SampleGeometry geometry;
  SampleMap map;
  ByteBuffer resident;                ///< All rows if the field was read at open, else empty
  std::uint64_t samples_per_row = 1;  ///< Above 1: each row belongs to an image and serves all its tiles
  /// Set if rows belong to images that differ in their number of tiles; `samples_per_row` is then the
  /// largest.
  std::shared_ptr<const Tiling> images;
};

/// One of `DatasetOptions::fields`. Either `rows` or `ragged` is set.
struct NamedField {
  FieldOptions options;
  std::optional<Field> rows;                  ///< Samples of one shape
  std::shared_ptr<const RaggedField> ragged;  ///< Samples of variable length
  /// For `ragged`; above 1: each row belongs to an image and serves all its tiles.
  std::uint64_t samples_per_row = 1;
  /// Set if rows belong to images that differ in their number of tiles; `samples_per_row` is then the
  /// largest.
  std::shared_ptr<const Tiling> images = {};

  /// Returns the row of `ragged` that belongs to a sample.
  std::uint64_t row_of(std::uint64_t sample) const noexcept {
    return images ? images->image_of(sample) : sample / samples_per_row;
  }
  /// Returns the element type as delivered: the chosen one, else f32 with `normalize`, else the stored one.
  DType dtype() const noexcept;
};

class LoaderGroup;

/// Lets the loaders of a dataset find the LoaderGroup that they share. Loaders own it; the dataset keeps a
/// weak_ptr.
struct LoaderGroupPlace {
  Mutex mutex;
  std::weak_ptr<LoaderGroup> group H5FEED_GUARDED_BY(mutex);
};

/// State of an open dataset. Immutable after open, except the weak LoaderGroup pointer, which has a mutex.
struct DatasetState {
  DatasetOptions options;  ///< Options as given to `Dataset::open`
  std::string file;        ///< File name for messages; the first of several
  Field data;
  std::optional<Field> target;
  std::vector<NamedField> fields;
  std::optional<Tiling> tiling;  ///< Set if samples are tiles
  /// The first file that is read from a network file system; unset if none is, as with `stage_dir`.
  std::optional<RemoteFile> remote = {};
  /// Tiles that `TileOptions::min_foreground` left; null: all.
  std::shared_ptr<const SampleSubset> kept = {};
  /// Set if the samples are those of several sets that loaders mix; `mixed` and `mix_options` are then what
  /// `mix` was given.
  std::shared_ptr<const Mixture> mixture = {};
  std::vector<MixedSet> mixed = {};
  MixOptions mix_options = {};
  std::unique_ptr<LoaderGroupPlace> loaders = std::make_unique<LoaderGroupPlace>();

  /// Number of fields: data, target and named fields. The target counts even if there is none.
  std::size_t num_fields() const noexcept { return kFirstNamed + fields.size(); }
  /// Returns field `number` if its samples have one shape; null for a ragged field, and for the target if
  /// there is none.
  const Field* field(std::size_t number) const noexcept {
    if (number == kData) return &data;
    if (number == kTarget) return target ? &*target : nullptr;
    const NamedField& named = fields[number - kFirstNamed];
    return named.rows ? &*named.rows : nullptr;
  }
  /// Returns the decoded bytes of one sample in the stored types: its data, target and named fields, without
  /// ragged ones, whose samples differ in length.
  std::uint64_t sample_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (std::size_t number = 0; number < num_fields(); ++number) {
      if (const Field* const rows = field(number)) bytes += rows->map.row_bytes();
    }
    return bytes;
  }
};

/// Returns the set of a mixture that an existing sample belongs to; 0 if the dataset is not a mixture.
std::int64_t set_of(const DatasetState& dataset, std::int64_t sample) noexcept;

/// Returns the file, dataset and row in which an existing sample is stored, and the place of a tile in its
/// image; without `key` only if it is not drawn in each epoch. Throws std::bad_alloc.
SampleOrigin origin_of(const DatasetState& dataset, std::int64_t sample,
                       const std::optional<EpochKey>& key = {});

/// Returns the mixture of `DatasetState::mixed`, each set of which is opened again as `Dataset::refresh`
/// does. Blocks and throws as that.
Dataset opened_again(const DatasetState& mixture);

/// Returns "a.h5: two datasets look like images: /train, /test", the largest first, for the error of a user
/// who named no dataset.
std::string which_images(const std::string& file, std::vector<DatasetEntry> images);

/// Access to what the public handle keeps private.
struct DatasetAccess {
  /// Maps the byte source of a file to the source that the chunks of the data are read from.
  using WrapSource = std::function<std::shared_ptr<const ByteSource>(std::shared_ptr<const ByteSource>)>;

  /// Opens a dataset like `Dataset::open`, with `wrap` applied to the byte source of the data, not of the
  /// other fields. An empty `wrap` changes nothing. Throws OptionError, FileError, DatasetError, ChunkError.
  /// `probe` tells kinds and free space of file systems; tests replace it.
  static Dataset open(const DatasetOptions& options, const WrapSource& wrap, const StorageProbe& probe = {});

  /// Returns a handle of `state`, of the samples of `chosen` if it is not null.
  static Dataset make(std::shared_ptr<const DatasetState> state, std::shared_ptr<const SampleSubset> chosen) {
    Dataset dataset(std::move(state));
    dataset.chosen_ = std::move(chosen);
    return dataset;
  }

  /// Returns the state that all handles of the opened dataset share.
  static const std::shared_ptr<const DatasetState>& state(const Dataset& dataset) noexcept {
    return dataset.state_;
  }
  /// Returns the samples of a subset; null if the dataset is not a subset.
  static const std::shared_ptr<const SampleSubset>& chosen(const Dataset& dataset) noexcept {
    return dataset.chosen_;
  }
};

}  // namespace h5feed
