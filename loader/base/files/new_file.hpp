// SPDX-License-Identifier: Apache-2.0
// A file of text that appears under its name complete or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/files/file_descriptor.hpp"

namespace h5feed {

/// A new file under a temporary name (`temporary_beside`) next to its target. Not thread-safe. After the
/// first error the other calls do nothing.
class NewFile {
 public:
  /// Creates the temporary file, and removes those that killed processes left of this target. An error if the
  /// target is a folder, a device or a pipe.
  explicit NewFile(std::filesystem::path target);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  /// Removes the temporary file unless `commit` succeeded.
  ~NewFile();

  /// Appends text. Blocks while it is written.
  void write(std::string_view text);
  /// Renames the file to its target, which it replaces. Returns the first error of all calls, or none.
  std::error_code commit();
  /// Returns the first error so far, or none.
  std::error_code error() const noexcept { return error_; }

 private:
  const std::filesystem::path target_;
  const std::filesystem::path temporary_;
  const FileDescriptor file_;
  std::error_code error_;
  bool committed_ = false;
};

}  // namespace h5feed
