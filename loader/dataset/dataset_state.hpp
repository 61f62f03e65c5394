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
#include "dataset/sample_rows.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/mixture.hpp"
#include "plan/mixture.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/sparse/sparse_data.hpp"

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
  /// Returns the shape of a sample as delivered: that of a row, behind the number of rows of a window.
  std::vector<std::int64_t> sample_shape() const;
  /// Returns the decoded bytes of all rows of a sample.
  std::uint64_t sample_bytes() const noexcept { return map.row_bytes() * belonging.per_sample(); }

  std::shared_ptr<const ChunkReader> reader;
  SampleGeometry geometry;  ///< Of one row
  SampleMap map;
  ByteBuffer resident;        ///< All rows if the field was read at open, else empty
  SampleRows belonging = {};  ///< The rows that belong to each sample
};

/// One of `DatasetOptions::fields`. Either `rows` or `ragged` is set.
struct NamedField {
  FieldOptions options;
  std::optional<Field> rows;                  ///< Samples of one shape
  std::shared_ptr<const RaggedField> ragged;  ///< Samples of variable length
  SampleRows belonging = {};                  ///< For `ragged`: the row that belongs to each sample
  /// Names of the codes of a categorical column; empty for other fields.
  std::vector<std::string> names = {};

  /// Returns the element type as delivered: the chosen one, else f32 with `normalize`, else the stored one.
  DType dtype() const noexcept;
};

/// The episodes of a dataset, and the samples in them.
struct Episodes {
  std::shared_ptr<const Anchors> anchors;
  AnchorGroups groups = {};
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
  std::vector<std::int64_t> sample_shape = {};  ///< Shape of a sample of the data as delivered
  std::optional<Episodes> episodes = {};        ///< Set if samples are placed in episodes
  /// Set if the samples are those of several sets that loaders mix; `mixed` and `mix_options` are then what
  /// `mix` was given.
  std::shared_ptr<const Mixture> mixture = {};
  std::vector<MixedSet> mixed = {};
  MixOptions mix_options = {};
  std::optional<SparseData> sparse = {};       ///< Set if samples are rows of a sparse matrix
  std::vector<std::string> target_names = {};  ///< Names of the codes of a categorical target
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
  /// Returns whether the data is delivered as `Batch::sparse`.
  bool delivers_csr() const noexcept { return sparse && sparse->format == SparseFormat::csr; }
  /// Returns the name of a field: "data", "target", or that of a named field.
  std::string field_name(std::size_t number) const {
    if (number == kData) return "data";
    return number == kTarget ? "target" : fields[number - kFirstNamed].options.name;
  }
  /// Number of samples.
  std::uint64_t num_samples() const noexcept {
    return episodes ? episodes->anchors->num_samples() : data.info().rows();
  }
  /// Maps samples to chunks of the data, with all pieces of a row of chunks counted as one chunk; in
  /// episodes, to groups of chunks.
  const RowLayout& sample_layout() const noexcept {
    return episodes ? episodes->groups.samples : data.map.rows();
  }
  /// Returns the numbers of the fields with windows that bring a further field, which says which of their
  /// rows exist. Throws std::bad_alloc.
  std::vector<std::size_t> fields_with_valid() const {
    std::vector<std::size_t> numbers;
    if (!episodes || !options.episodes) return numbers;
    if (options.episodes->missing_before == 0 && options.episodes->missing_after == 0) return numbers;
    for (std::size_t number = 0; number < num_fields(); ++number) {
      const Field* const rows = field(number);
      if (rows != nullptr && rows->belonging.timed()) numbers.push_back(number);
    }
    return numbers;
  }
  /// Returns the decoded bytes of one sample in the stored types: its data, on average if it is a sparse row,
  /// target and named fields, without ragged ones, whose samples differ in length.
  std::uint64_t sample_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (std::size_t number = 0; number < num_fields(); ++number) {
      const Field* const rows = field(number);
      if (rows == nullptr) continue;
      bytes += number == kData && delivers_csr() ? sparse->mean_row_bytes() : rows->sample_bytes();
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
