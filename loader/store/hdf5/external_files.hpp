// SPDX-License-Identifier: Apache-2.0
// Files outside an HDF5 file that hold the bytes of a dataset ("external storage").
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// A run of a dataset's bytes in another file.
struct ExternalPart {
  std::string name;          ///< Name of the file, as stored
  std::uint64_t offset = 0;  ///< First byte in that file
  std::uint64_t bytes = 0;   ///< Number of bytes; ~0 if unlimited
};

template <>
struct WireMembers<ExternalPart> {
  static auto of(auto& v) { return std::tie(v.name, v.offset, v.bytes); }
};

/// Returns the external files of a dataset. Blocks on the HDF5 mutex. Throws FileError.
std::vector<ExternalPart> external_parts(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
