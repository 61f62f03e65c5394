// SPDX-License-Identifier: Apache-2.0
#include "base/files/folder_of.hpp"

namespace h5feed {

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace h5feed
