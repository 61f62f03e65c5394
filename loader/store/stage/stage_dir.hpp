// SPDX-License-Identifier: Apache-2.0
// A directory on a local disk that holds copies of files on slow storage.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/files/storage_kind.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed {

/// The copies of one user in a directory, which lie in its folder "h5feed-UID". A copy is used if its record,
/// "NAME.stage", names the source's path, size, modification time and inode as they are now, and the copy's
/// own as they are now. The record is written after the copy is complete, synced and compared with what was
/// read, so a copy that was interrupted or changed is never used. Processes of the host copy one at a time,
/// under a lock of the folder that ends with its process. Not thread-safe.
class StageDir {
 public:
  /// Uses `directory`, the value of `DatasetOptions::stage_dir`. `probe` tells how much space is free. Throws
  /// FileError if the directory does not exist or cannot be written, or its folder belongs to another user.
  explicit StageDir(std::filesystem::path directory, StorageProbe probe = {});

  /// Makes sure that all `sources` have a valid copy and returns the paths of the copies in the same order.
  /// Blocks until other processes that copy are done, and while it copies what is missing or has changed, on
  /// up to four threads with 4 MiB each. Logs one line before it copies and one afterwards. Throws FileError
  /// before it copies anything if not all fit with the space that stays free (5 % of the file system, at most
  /// 1 GiB); and if a source cannot be read, changes while it is copied, or the copy differs.
  std::vector<std::filesystem::path> copies_of(std::span<const std::filesystem::path> sources);

  /// Returns the folder of the copies.
  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// For tests: called with each copy after it was written and before it is compared.
  std::function<void(const std::filesystem::path& copy)> before_compare;

 private:
  struct Copy;
  Copy examine(const std::filesystem::path& source) const;
  void require_space(std::span<const Copy> missing) const;
  void make(const Copy& copy) const;

  const std::filesystem::path directory_;
  const StorageProbe probe_;
  std::filesystem::path folder_;
};

}  // namespace h5feed
