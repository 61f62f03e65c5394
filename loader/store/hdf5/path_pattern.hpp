// SPDX-License-Identifier: Apache-2.0
// Datasets of a file by a pattern of their paths: one in each of many groups.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// The names between the slashes of a path or a pattern, none of them empty. They are parts of `path`.
std::vector<std::string_view> components_of(std::string_view path);

/// Returns the components of `path` that wildcards of `pattern` stand for, parts of `path`; none without
/// wildcards.
std::vector<std::string_view> wildcard_names(std::string_view path, std::string_view pattern);

/// The paths that `pattern` stands for, absolute, in natural order (base/files/natural_order.hpp). Wildcards
/// of fnmatch(3) stand for names within one group: "data/demo_*/obs/image". What follows the last wildcard
/// has to be in every group that it matches. Without wildcards, or where the path exists as it stands: the
/// path itself, looked for by who opens it. Throws DatasetError for a pattern that nothing matches, and for a
/// group that lacks the rest of the path, naming it and what it has; FileError where libhdf5 cannot list a
/// group.
std::vector<std::string> expand_path(const H5File& file, const std::string& pattern,
                                     const PathOption& option);

}  // namespace h5feed
