// Checks the include direction of the source tree.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace h5feed::testing {

/// Compares the `#include` lines of every C++ and CUDA file below `root` with the table in include_rules.cpp.
/// Returns one line per violation, "loader/cache/x.cpp:3: includes …"; a folder that the table does not know
/// is a violation too. Skips top-level folders named build* or .*.
std::vector<std::string> include_violations(const std::filesystem::path& root);

}  // namespace h5feed::testing
