// A dataset under any of its names.
#pragma once

#include <string>
#include <vector>

#include "store/h5_file.hpp"

namespace h5feed::cli {

/// The entry of the dataset at `path`, which `entries` may list under another of its names; null where none
/// is it. `file` must be the one listed. Throws FileError.
DatasetEntry* entry_of(const H5File& file, std::vector<DatasetEntry>& entries, const std::string& path);

}  // namespace h5feed::cli
