// SPDX-License-Identifier: Apache-2.0
// Temporary directory of one test.
#pragma once

#include <filesystem>
#include <string>

namespace h5feed::test {

/// A new directory; the destructor removes it with everything in it.
class TempDir {
 public:
  /// Creates the directory in GoogleTest's temporary directory. Throws std::runtime_error if it cannot be
  /// created.
  TempDir();
  /// Creates the directory in `parent`. Throws std::runtime_error if it cannot be created.
  explicit TempDir(const std::filesystem::path& parent);
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace h5feed::test
