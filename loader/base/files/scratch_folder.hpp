// SPDX-License-Identifier: Apache-2.0
// Folders of temporary files that do not stay where their process was killed.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/files/file_descriptor.hpp"

namespace h5feed {

/// Returns the folder for temporary files: the value of TMPDIR, or "/tmp" if that is unset or empty. Whether
/// it exists is for its user to find out.
std::filesystem::path temporary_place();

/// A new folder "NAME-XXXXXX" that only this user may enter; the destructor removes it with everything in it.
/// A process that is killed leaves its folder: the next ScratchFolder of this name in the same place removes
/// it. The kernel tells whether a folder's process lives, by its lock of a file in the folder, so that a
/// reused process number cannot mislead. Not thread-safe.
class ScratchFolder {
 public:
  /// Removes the folders of this name and user in `parent` whose processes have ended, and creates one. What
  /// lies on a network file system is left, as another machine may use it. Follows no links. Throws FileError
  /// that names `parent` if no folder can be created there.
  ScratchFolder(const std::filesystem::path& parent, std::string_view name);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  /// Returns the folder, as an absolute path.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor folder_;
  FileDescriptor lock_;
};

}  // namespace h5feed
