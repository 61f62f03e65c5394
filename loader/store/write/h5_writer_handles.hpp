// SPDX-License-Identifier: Apache-2.0
// The HDF5 handles that an H5Writer holds, and access to them. Internal to this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/hdf5/hdf5_session.hpp"
#include "store/write/h5_writer.hpp"
#include "store/write/staged_file.hpp"

namespace h5feed {

struct H5Writer::State {
  StagedFile staged;
  hid_t file H5FEED_GUARDED_BY(hdf5_mutex) = H5I_INVALID_HID;
  std::map<std::string, hid_t> datasets H5FEED_GUARDED_BY(hdf5_mutex);

  State(std::filesystem::path target, bool overwrite) : staged(std::move(target), overwrite) {
    // libhdf5 does not say why not, and cannot close a file whose headers have no room.
    staged.probe(kMetadataRoomBytes);
  }

  /// Throws FileError with the target, `what` failed and libhdf5's reason.
  [[noreturn]] void fail(const Hdf5Session& session, std::string_view what) const;

  /// Returns the dataset at `path`. Throws FileError if this writer did not create it.
  H5::DataSet dataset(const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

  /// Claims storage for what libhdf5 is about to write. If a write fails because storage is full, libhdf5
  /// cannot close the file, and 1.10 crashes when the process exits at the latest. Throws FileError if there
  /// is no space.
  void reserve(std::uint64_t data_bytes) H5FEED_REQUIRES(hdf5_mutex);

  /// Returns all open identifiers and forgets them; the caller closes them outside the session. Blocks on the
  /// HDF5 mutex.
  std::vector<hid_t> take_ids();
};

/// Gives the other sources of this folder access to H5Writer::State.
class H5WriterAccess {
 public:
  using State = H5Writer::State;
  static State& state(H5Writer& writer) noexcept { return *writer.state_; }
};

}  // namespace h5feed
