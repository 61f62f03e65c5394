// SPDX-License-Identifier: Apache-2.0
// The source datasets of a virtual dataset.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "store/format/selection.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// A source of a virtual dataset, and which elements come from it.
struct VirtualSource {
  std::size_t number = 0;      ///< Number of the mapping, as stored
  std::filesystem::path file;  ///< Path of the source file
  std::string path;            ///< Path of the source dataset in `file`
  Selection to;  ///< Elements of the virtual dataset, of its rank in the file; empty if they are not regular
  Selection from;      ///< Elements of the source; empty if they are not regular, or all of them
  bool whole = false;  ///< All of the source is selected; its shape is not stored
  /// One more than the last selected index of each dimension of the source. Empty if all of the source is
  /// selected, or if the selection has no limit.
  std::vector<std::uint64_t> ends = {};
};

/// The sources of a virtual dataset.
struct VirtualMapping {
  std::vector<VirtualSource> sources;  ///< As stored
  /// Why the elements cannot be taken from the sources one by one, in a few words; empty if they can.
  std::string other_reason;
};

/// One mapping of a virtual dataset, as stored.
struct StoredMapping {
  std::string file;           ///< Name of the source file
  std::string dataset;        ///< Path in it
  Selection in_virtual;       ///< Empty for a selection that is not regular, or without limit
  Selection in_source;        ///< Likewise
  bool whole_source = false;  ///< The whole source is selected, whose extent is not stored
  bool nothing = false;       ///< No element of the virtual dataset is selected
  std::vector<std::uint64_t> source_ends = {};  ///< `VirtualSource::ends`
};

template <>
struct WireMembers<SelectedIndices> {
  static auto of(auto& v) { return std::tie(v.start, v.stride, v.count, v.block); }
  static bool valid(const SelectedIndices& indices) { return indices.valid(); }
};

template <>
struct WireMembers<StoredMapping> {
  static auto of(auto& v) {
    return std::tie(v.file, v.dataset, v.in_virtual, v.in_source, v.whole_source, v.nothing, v.source_ends);
  }
};

/// Returns the mappings of the virtual dataset `info`. Blocks on the HDF5 mutex. Throws FileError.
std::vector<StoredMapping> read_mappings(const H5File& file, const DatasetInfo& info);

/// Reads the sources of the virtual dataset `info` of `file`. Looks for source files where libhdf5 does (HDF5
/// reference, "H5Pset_virtual_prefix" and "H5Pset_virtual"): in the folders of HDF5_VDS_PREFIX, next to the
/// file, and in the working directory. Throws FileError that names a source file that is not found.
VirtualMapping read_virtual_mapping(const H5File& file, const DatasetInfo& info);

/// Returns the path of the existing file that `main_file` calls `name`; empty if there is none. Looks where
/// libhdf5 does: in the folders that the environment variable `prefixes` lists, next to the main file, and in
/// the working directory; for an absolute name first there. Blocks.
std::filesystem::path find_named_file(const std::filesystem::path& main_file, const std::string& name,
                                      const char* prefixes);

/// Returns `folder`, from one of libhdf5's environment variables, with a leading "${ORIGIN}" replaced by
/// `origin`.
std::string with_origin(std::string folder, const std::filesystem::path& origin);

}  // namespace h5feed
