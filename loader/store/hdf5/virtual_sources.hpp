// SPDX-License-Identifier: Apache-2.0
// The source datasets of a virtual dataset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Consecutive rows of a virtual dataset that come from one source.
struct VirtualSource {
  std::filesystem::path file;   ///< Path of the source file
  std::string path;             ///< Path of the source dataset in `file`
  std::uint64_t first_row = 0;  ///< First row in the source; 0 if the source is one row as a whole
  std::uint64_t rows = 0;       ///< Number of rows
  /// The mapping covers the whole source, whose shape is not stored: it has either `rows` rows, or one
  /// dimension less and is one row.
  bool whole = false;
  bool one_row = false;  ///< The source has one dimension less and is one row as a whole
};

/// The sources of a virtual dataset.
struct VirtualMapping {
  std::vector<VirtualSource> sources;  ///< In row order if `other_reason` is empty, else as stored
  /// Why the sources are not consecutive runs of whole rows, in a few words; empty if they are.
  std::string other_reason;
};

/// A selection of elements that consists of one box of at least one dimension.
struct SelectedBox {
  std::vector<std::uint64_t> start;
  std::vector<std::uint64_t> count;  ///< Extents, as many as `start` has
};

/// One mapping of a virtual dataset, as stored.
struct StoredMapping {
  std::string file;                       ///< Name of the source file
  std::string dataset;                    ///< Path in it
  std::optional<SelectedBox> in_virtual;  ///< Empty for a selection that is no box
  std::optional<SelectedBox> in_source;   ///< Empty for a selection that is no box
  bool whole_source = false;              ///< The whole source is selected, whose extent is not stored
};

template <>
struct WireMembers<SelectedBox> {
  static auto of(auto& v) { return std::tie(v.start, v.count); }
  /// Returns whether it has as many extents as starts, and at least one.
  static bool valid(const SelectedBox& box) {
    return !box.start.empty() && box.start.size() == box.count.size();
  }
};

template <>
struct WireMembers<StoredMapping> {
  static auto of(auto& v) { return std::tie(v.file, v.dataset, v.in_virtual, v.in_source, v.whole_source); }
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

/// Returns the folder of `file`; "." if its path has none.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// Returns `folder`, from one of libhdf5's environment variables, with a leading "${ORIGIN}" replaced by
/// `origin`.
std::string with_origin(std::string folder, const std::filesystem::path& origin);

}  // namespace h5feed
