// SPDX-License-Identifier: Apache-2.0
// Lists of strings in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Most bytes of a list of names that is read at once: what a file claims beyond them is not allocated.
inline constexpr std::uint64_t kMostTextBytes = 256 * kMiB;

/// Returns the strings of a dataset (N) of strings of fixed or variable length, without what pads them;
/// nullopt if the dataset holds anything else. `option` is the option by which the user names the dataset.
/// Blocks on the HDF5 mutex. Throws DatasetError if there is no such dataset, or its strings, each of which
/// takes some 32 bytes at least, take more than 256 MiB; FileError if libhdf5 cannot read it.
std::optional<std::vector<std::string>> read_text_list(const H5File& file, const std::string& name,
                                                       const PathOption& option);

}  // namespace h5feed
