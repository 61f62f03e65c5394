// SPDX-License-Identifier: Apache-2.0
// Lists the datasets of a file. Each is examined on its own: a damaged object does not hide the others.
// Internal to store/; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/object_tree.hpp"

namespace h5feed {

/// Maximum depth of nested groups; deeper groups are listed as a problem.
inline constexpr unsigned kMaxGroupDepth = 256;

/// Lists every dataset reachable by hard links, in name order, each once; damaged objects are entries with a
/// `problem` (`H5File::list_datasets`). Throws std::bad_alloc.
std::vector<DatasetEntry> read_entries(const H5::H5File& file, const Hdf5Calls& calls)
    H5FEED_REQUIRES(hdf5_mutex);

/// Lists the links into other files (`H5File::list_external_links`). Throws std::bad_alloc.
std::vector<ExternalLink> read_external_links(const H5::H5File& file, const Hdf5Calls& calls)
    H5FEED_REQUIRES(hdf5_mutex);

/// Returns the entry of the object at the absolute path `path`. Throws std::bad_alloc.
DatasetEntry read_entry(const H5::H5File& file, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
