// SPDX-License-Identifier: Apache-2.0
// Texts about the datasets of a file, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Returns the shape of a dataset, "20000×3×218×178"; "scalar"; "none" for a dataset with a null dataspace;
/// "-" for an object that cannot be read.
std::string shape_text(const DatasetEntry& entry);

/// Returns a list of up to eight datasets, "/images (20000×3×218×178 u8), /labels (20000 u8)", then "and N
/// more"; "no datasets" if empty.
std::string list_text(const std::vector<DatasetEntry>& entries);

/// Returns a list of up to eight links, "/images to parts.h5:/images, /labels to parts.h5:/labels", then "and
/// N more".
std::string list_text(const std::vector<ExternalLink>& links);

/// Returns that no dataset of `file`, whose datasets `entries` lists, looks like images, with a list of them,
/// of its links into other files and, if some datasets cannot be read, why the first of them cannot. Blocks
/// on the HDF5 mutex.
std::string no_images_text(const H5File& file, const std::vector<DatasetEntry>& entries);

/// Returns the path, without its leading slash, of the numeric dataset that the user most likely meant by
/// `wanted`: one with the same last component, else the one with the fewest edits, else one whose name
/// contains it, else, with `want_images`, the only one that looks like images. Empty if none is similar.
std::string closest_dataset(const std::vector<DatasetEntry>& entries, std::string_view wanted,
                            bool want_images);

}  // namespace h5feed
