// The include direction of the source tree, as a check.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace h5feed::testing {

/// Reads every C++ and CUDA file below `root` and compares its `#include` lines with the table in
/// include_rules.cpp. One line per violation, "loader/cache/x.cpp:3: includes …"; a folder that the
/// table does not know is a violation too. Folders named build* or .* at the top are not sources.
std::vector<std::string> include_violations(const std::filesystem::path& root);

}  // namespace h5feed::testing
