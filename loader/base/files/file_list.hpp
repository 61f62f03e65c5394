// SPDX-License-Identifier: Apache-2.0
// Expansion of the file list that a user gives.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

namespace h5feed {

/// Returns the paths as given, with each pattern (wildcards of glob(7)) replaced by the files that it
/// matches, in natural order (base/files/natural_order.hpp). A path that exists literally is not a pattern.
/// Throws OptionError if the list is empty, FileError if a pattern matches nothing or its folder cannot be
/// listed.
std::vector<std::filesystem::path> expand_files(std::span<const std::filesystem::path> files);

}  // namespace h5feed
