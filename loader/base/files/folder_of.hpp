// SPDX-License-Identifier: Apache-2.0
// Folder of a file.
#pragma once

#include <filesystem>

namespace h5feed {

/// Returns the folder that the path of a file names: "data" for "data/train.h5", and "." for "train.h5".
/// Looks at the path alone.
std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace h5feed
