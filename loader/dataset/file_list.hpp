// The files that a user names.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

namespace h5feed {

/// Paths as given; patterns with the wildcards of glob(7) replaced by the files they match, in natural order
/// (base/natural_order.hpp). A path that exists as it stands is no pattern. Throws OptionError for an empty
/// list, FileError for a pattern that matches nothing or cannot be looked up.
std::vector<std::filesystem::path> expand_files(std::span<const std::filesystem::path> files);

}  // namespace h5feed
