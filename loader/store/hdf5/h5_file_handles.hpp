// SPDX-License-Identifier: Apache-2.0
// The HDF5 handles that an H5File holds, and the way to them. Internal to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {

struct H5File::State {
  std::optional<FileIdentity> identity;  // before anything was opened
  std::shared_ptr<const ByteSource> bytes;
  hid_t file H5FEED_GUARDED_BY(hdf5_mutex) = H5I_INVALID_HID;
  /// Datasets opened for reading, with their chunk caches.
  std::map<std::string, hid_t> readers H5FEED_GUARDED_BY(hdf5_mutex);
};

/// Bounds the metadata that libhdf5 keeps of a file opened with `access`. Its default grows to 32 MiB
/// while an index is walked once, from end to end. Throws H5::Exception.
void limit_metadata_cache(const H5::FileAccPropList& access) H5FEED_REQUIRES(hdf5_mutex);

/// For the other sources of this folder.
class H5FileAccess {
 public:
  static H5::H5File handle(const H5File& file) H5FEED_REQUIRES(hdf5_mutex) {
    return H5::H5File(file.state_->file);
  }

  /// The dataset, kept open for reading from the first call on, which sets its chunk cache. Throws
  /// H5::Exception.
  static H5::DataSet reader(const H5File& file, const DatasetInfo& info, std::uint64_t chunk_cache_bytes)
      H5FEED_REQUIRES(hdf5_mutex);

  /// Whether that call has come.
  static bool has_reader(const H5File& file, const DatasetInfo& info) H5FEED_EXCLUDES(hdf5_mutex);
};

}  // namespace h5feed
