// SPDX-License-Identifier: Apache-2.0
// The HDF5 handles that an H5File holds, and access to them. Internal to store/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "store/checks/examined_headers.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/hdf5_session.hpp"
#include "store/isolation/isolated_file.hpp"

namespace h5feed {

struct H5File::State {
  std::optional<FileIdentity> identity;  // Read before the file was opened
  std::shared_ptr<const ByteSource> bytes;
  std::unique_ptr<const IsolatedFile> remote;  // Null: this process reads the file, by `file`
  hid_t file H5FEED_GUARDED_BY(hdf5_mutex) = H5I_INVALID_HID;
  /// The object headers in `bytes`; empty if another process reads the file.
  std::optional<ExaminedHeaders> headers H5FEED_GUARDED_BY(hdf5_mutex);
  /// Datasets opened for reading, with their chunk caches, by path.
  std::map<std::string, hid_t> readers H5FEED_GUARDED_BY(hdf5_mutex);
  bool swmr_writer = false;  // As the superblock said when the file was opened
};

/// Gives other sources of store/ access to an H5File's HDF5 handles.
class H5FileAccess {
 public:
  /// Returns the HDF5 handle of `file`. Throws std::logic_error if another process reads it.
  static H5::H5File handle(const H5File& file) H5FEED_REQUIRES(hdf5_mutex);

  /// Returns the examined object headers of `file`, which this process reads.
  static ExaminedHeaders& headers(const H5File& file) H5FEED_REQUIRES(hdf5_mutex) {
    return *file.state_->headers;
  }

  /// Returns the file in the process that reads it; null if this process does.
  static const IsolatedFile* remote(const H5File& file) noexcept { return file.state_->remote.get(); }

  /// Returns the dataset, opened on the first call, which sets the size of its chunk cache, and kept open for
  /// reading. Throws H5::Exception.
  static H5::DataSet reader(const H5File& file, const DatasetInfo& info, std::uint64_t chunk_cache_bytes)
      H5FEED_REQUIRES(hdf5_mutex);

  /// Returns whether `reader` was called for this dataset.
  static bool has_reader(const H5File& file, const DatasetInfo& info) H5FEED_EXCLUDES(hdf5_mutex);
};

}  // namespace h5feed
