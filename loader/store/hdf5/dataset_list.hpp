// SPDX-License-Identifier: Apache-2.0
// Lists the datasets of a file. Each is examined on its own: a damaged object does not hide the others.
// Internal to store/; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "store/checks/examined_headers.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/hdf5/within_file.hpp"

namespace h5feed {

/// Maximum depth of nested groups; deeper groups are listed as a problem.
inline constexpr unsigned kMaxGroupDepth = 256;

/// Returns the complete error message for an object or a group on the way to it whose header is damaged, so
/// that libhdf5 must not be given it; empty if none is. Opening the file examines the first objects only.
/// `path` is absolute and may lead over soft links; what is behind a link into another file is not examined.
/// Examines nothing if this process has the file open for writing, because headers may be in memory only.
/// Throws FileError if the file cannot be read.
std::string header_problem(const H5::H5File& file, const WithinFile& within, const Hdf5Calls& calls,
                           ExaminedHeaders& headers, std::string path) H5FEED_REQUIRES(hdf5_mutex);

/// Lists every dataset reachable by hard links, in name order, each once; damaged objects are entries with a
/// `problem` (`H5File::list_datasets`). Throws std::bad_alloc; FileError if the file cannot be read.
std::vector<DatasetEntry> read_entries(const H5::H5File& file, const Hdf5Calls& calls,
                                       ExaminedHeaders& headers) H5FEED_REQUIRES(hdf5_mutex);

/// Lists the links into other files (`H5File::list_external_links`). Throws like `read_entries`.
std::vector<ExternalLink> read_external_links(const H5::H5File& file, const Hdf5Calls& calls,
                                              ExaminedHeaders& headers) H5FEED_REQUIRES(hdf5_mutex);

/// Returns the entry of the object at the absolute path `path`. Throws like `read_entries`.
DatasetEntry read_entry(const H5::H5File& file, const Hdf5Calls& calls, ExaminedHeaders& headers,
                        const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
