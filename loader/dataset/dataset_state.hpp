// What a Dataset handle shares: readers, geometry, resident fields.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/mutex.hpp"
#include "dataset/geometry.hpp"
#include "dataset/sample_map.hpp"
#include "h5feed/dataset.hpp"
#include "store/chunk_reader.hpp"

namespace h5feed {

/// Fields of at most this many decoded bytes (labels, as a rule) are read whole at open.
inline constexpr std::uint64_t kResidentFieldBytes = 64 * kMiB;

/// One HDF5 dataset whose rows belong to the samples.
struct Field {
  Field(std::shared_ptr<const ChunkReader> chunk_reader, SampleGeometry sample_geometry);

  const DatasetInfo& info() const noexcept { return reader->info(); }
  bool is_resident() const noexcept { return resident.data() != nullptr; }

  std::shared_ptr<const ChunkReader> reader;
  SampleGeometry geometry;
  SampleMap map;
  ByteBuffer resident;  ///< all rows, when the field was read at open; else empty
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
  std::unique_ptr<LoaderGroupPlace> loaders = std::make_unique<LoaderGroupPlace>();
};

/// Opens datasets over other bytes than the file's own.
struct DatasetAccess {
  /// Given the file's bytes, what the data's chunks are to be read from.
  using WrapSource = std::function<std::shared_ptr<const ByteSource>(std::shared_ptr<const ByteSource>)>;

  /// As `Dataset::open`, with `wrap` applied to the source of the data (not of the target); empty: none.
  static Dataset open(const DatasetOptions& options, const WrapSource& wrap);
};

}  // namespace h5feed
