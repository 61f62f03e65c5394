// SPDX-License-Identifier: Apache-2.0
// Sentences about the datasets of a file, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// "20000×3×218×178"; "scalar", "none" for a dataset created without elements, "-" for an object that cannot
/// be read.
std::string shape_text(const DatasetEntry& entry);

/// "/images (20000×3×218×178 u8), /labels (20000 u8)"; after the eighth "and N more"; "no datasets"
/// when empty.
std::string list_text(const std::vector<DatasetEntry>& entries);

/// Path, without its leading slash, of the numeric dataset the user most likely meant by `wanted`:
/// the same last component, else the fewest edits, else a name that contains it, else, with
/// `want_images`, the only one that looks like images. Empty when nothing is near.
std::string closest_dataset(const std::vector<DatasetEntry>& entries, std::string_view wanted,
                            bool want_images);

}  // namespace h5feed
