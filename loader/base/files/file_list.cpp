// SPDX-License-Identifier: Apache-2.0
#include "base/files/file_list.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "base/files/natural_order.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

class Glob {
 public:
  explicit Glob(const std::string& pattern)
      : status_(::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found_)) {}
  Glob(const Glob&) = delete;
  Glob& operator=(const Glob&) = delete;
  ~Glob() { ::globfree(&found_); }

  int status() const noexcept { return status_; }
  std::vector<std::string> paths() const {
    return {found_.gl_pathv, found_.gl_pathv + (status_ == 0 ? found_.gl_pathc : 0)};
  }

 private:
  ::glob_t found_ = {};
  int status_;
};

}  // namespace

std::vector<std::filesystem::path> expand_files(std::span<const std::filesystem::path> files) {
  if (files.empty()) {
    throw OptionError("files is empty; name an HDF5 file, several, or a pattern such as \"train/*.h5\"");
  }
  std::vector<std::filesystem::path> expanded;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.string();
    std::error_code error;
    if (!has_wildcard(name) || std::filesystem::exists(file, error)) {
      expanded.push_back(file);
      continue;
    }
    const Glob glob(name);
    if (glob.status() != 0 && glob.status() != GLOB_NOMATCH) {
      throw FileError(fmt::format("{}: the folder cannot be listed; check its permissions", name));
    }
    std::vector<std::string> paths = glob.paths();
    if (paths.empty())
      throw FileError(fmt::format("{}: no file matches; check the folder and pattern", name));
    std::ranges::sort(paths, natural_less);
    expanded.insert(expanded.end(), paths.begin(), paths.end());
  }
  return expanded;
}

}  // namespace h5feed
