// SPDX-License-Identifier: Apache-2.0
// The datasets that a virtual dataset is made of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Rows of one source that follow each other in the virtual dataset.
struct VirtualSource {
  std::filesystem::path file;
  std::string path;             ///< of the dataset in it
  std::uint64_t first_row = 0;  ///< of the source; 0 where it is one row as a whole
  std::uint64_t rows = 0;
  /// All of the source is mapped; its shape is not told. It has `rows` rows, or a dimension less and is one
  /// row.
  bool whole = false;
  bool one_row = false;  ///< the source has a dimension less: all of it is one row
};

struct VirtualMapping {
  std::vector<VirtualSource> sources;  ///< by row where `other_reason` is empty, else as stored
  /// Why the sources are not runs of whole rows that follow each other, in a few words; empty where they are.
  std::string other_reason;
};

/// What the virtual dataset `info` of `file` is made of. Source files are looked for where libhdf5 does (HDF5
/// reference, "H5Pset_virtual_prefix" and "H5Pset_virtual"): in the folders of HDF5_VDS_PREFIX, beside the
/// file, and in the working directory. Throws FileError that names the source that is nowhere to be found.
VirtualMapping read_virtual_mapping(const H5File& file, const DatasetInfo& info);

/// The folder that `file` lies in; "." where its path has none.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// `folder`, from one of libhdf5's environment variables, with a leading "${ORIGIN}" replaced by `origin`.
std::string with_origin(std::string folder, const std::filesystem::path& origin);

}  // namespace h5feed
