// What a Dataset handle shares: readers, geometry, resident fields.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/mutex.hpp"
#include "dataset/geometry.hpp"
#include "dataset/ragged_field.hpp"
#include "dataset/sample_map.hpp"
#include "h5feed/dataset.hpp"
#include "store/chunk_reader.hpp"

namespace h5feed {

/// Fields of at most this many decoded bytes (labels, as a rule) are read whole at open.
inline constexpr std::uint64_t kResidentFieldBytes = 64 * kMiB;

/// Numbers of a sample's fields; named ones follow.
inline constexpr std::size_t kData = 0, kTarget = 1, kFirstNamed = 2;

/// One HDF5 dataset whose rows belong to the samples.
struct Field {
  Field(std::shared_ptr<const ChunkReader> chunk_reader, SampleGeometry sample_geometry,
        const std::optional<Tiling>& tiling = {});

  const DatasetInfo& info() const noexcept { return reader->info(); }
  bool is_resident() const noexcept { return resident.data() != nullptr; }
  /// The row that belongs to a sample.
  std::uint64_t row_of(std::uint64_t sample) const noexcept { return sample / samples_per_row; }

  std::shared_ptr<const ChunkReader> reader;
  SampleGeometry geometry;
  SampleMap map;
  ByteBuffer resident;                ///< all rows, when the field was read at open; else empty
  std::uint64_t samples_per_row = 1;  ///< above 1: a row is that of an image, for all its tiles
};

/// One of `DatasetOptions::fields`: either `rows` or `ragged`.
struct NamedField {
  FieldOptions options;
  std::optional<Field> rows;                  ///< samples of one shape
  std::shared_ptr<const RaggedField> ragged;  ///< samples that differ in length
  std::uint64_t samples_per_row = 1;          ///< as Field's; of `ragged`

  /// The row of `ragged` that belongs to a sample.
  std::uint64_t row_of(std::uint64_t sample) const noexcept { return sample / samples_per_row; }
  /// As delivered.
  DType dtype() const noexcept;
};

class LoaderGroup;

/// Where a dataset's loaders find what they share.
struct LoaderGroupPlace {
  Mutex mutex;
  std::weak_ptr<LoaderGroup> group H5FEED_GUARDED_BY(mutex);
};

/// Immutable after open, but for what the loaders leave there for each other.
struct DatasetState {
  DatasetOptions options;  ///< as given
  std::string file;        ///< for messages: the first of several
  Field data;
  std::optional<Field> target;
  std::vector<NamedField> fields;
  std::optional<Tiling> tiling;  ///< samples are tiles
  std::unique_ptr<LoaderGroupPlace> loaders = std::make_unique<LoaderGroupPlace>();

  /// Data, target and named fields, counted from 0.
  std::size_t num_fields() const noexcept { return kFirstNamed + fields.size(); }
  /// Field `number` where its samples have one shape; null for a ragged one and for no target.
  const Field* field(std::size_t number) const noexcept {
    if (number == kData) return &data;
    if (number == kTarget) return target ? &*target : nullptr;
    const NamedField& named = fields[number - kFirstNamed];
    return named.rows ? &*named.rows : nullptr;
  }
};

/// Where a sample, which exists, is stored. Throws std::bad_alloc.
SampleOrigin origin_of(const DatasetState& dataset, std::int64_t sample);

/// "a.h5: two datasets look like images: /train, /test", the largest first: where the user named none of
/// them.
std::string which_images(const std::string& file, std::vector<DatasetEntry> images);

/// Opens datasets over other bytes than the file's own.
struct DatasetAccess {
  /// Given the file's bytes, what the data's chunks are to be read from.
  using WrapSource = std::function<std::shared_ptr<const ByteSource>(std::shared_ptr<const ByteSource>)>;

  /// As `Dataset::open`, with `wrap` applied to the source of the data (not of the target); empty: none.
  static Dataset open(const DatasetOptions& options, const WrapSource& wrap);
};

}  // namespace h5feed
