// What an H5Writer holds. Internal to this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/h5_writer.hpp"
#include "store/hdf5_session.hpp"
#include "store/staged_file.hpp"

namespace h5feed {

struct H5Writer::State {
  StagedFile staged;
  hid_t file H5FEED_GUARDED_BY(hdf5_mutex) = H5I_INVALID_HID;
  std::map<std::string, hid_t> datasets H5FEED_GUARDED_BY(hdf5_mutex);

  State(std::filesystem::path target, bool overwrite) : staged(std::move(target), overwrite) {
    // libhdf5 does not say why not, and cannot close a file whose headers have no room.
    staged.probe(kMetadataRoomBytes);
  }

  /// Throws FileError: the target, what failed and libhdf5's reason.
  [[noreturn]] void fail(const Hdf5Session& session, std::string_view what) const;

  /// Throws FileError where no such dataset was created.
  H5::DataSet dataset(const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

  /// Claims storage for what libhdf5 is about to write: a write that fails for want of space leaves it
  /// unable to close the file, and 1.10 then crashes at the latest when the process exits. Throws FileError.
  void reserve(std::uint64_t data_bytes) H5FEED_REQUIRES(hdf5_mutex);

  /// Every identifier, for closing outside the session.
  std::vector<hid_t> take_ids();
};

/// The HDF5 handles of an H5Writer, for the other sources of this folder.
class H5WriterAccess {
 public:
  using State = H5Writer::State;
  static State& state(H5Writer& writer) noexcept { return *writer.state_; }
};

/// Appends `filters` to a dataset creation property list, with the parameters that libhdf5 and its plugins
/// expect. Throws H5::Exception.
void add_filters(const H5::DSetCreatPropList& plist, const std::vector<FilterSpec>& filters,
                 std::size_t chunk_bytes, std::size_t element_bytes);

/// Order of links and attributes, and from how many on they are indexed, from one group creation property
/// list to another. Negative where libhdf5 fails.
herr_t copy_group_properties(hid_t from, hid_t to);

}  // namespace h5feed
