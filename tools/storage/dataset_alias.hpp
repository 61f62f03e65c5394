// SPDX-License-Identifier: Apache-2.0
// Finds a dataset under any of its names.
#pragma once

#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed::cli {

/// Returns the entry of the dataset at `path`, which `entries` may list under another of its names; null if
/// no entry is that dataset. `file` must be the file that `entries` lists. Borrows from `entries`. Throws
/// FileError.
DatasetEntry* entry_of(const H5File& file, std::vector<DatasetEntry>& entries, const std::string& path);

}  // namespace h5feed::cli
