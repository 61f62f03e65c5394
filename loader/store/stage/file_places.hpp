// SPDX-License-Identifier: Apache-2.0
// Paths that the files of a dataset are read from: the originals, or copies in a local directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/files/storage_kind.hpp"
#include "store/stage/stage_dir.hpp"

namespace h5feed {

/// Maps the files of one dataset, by the paths that users give, to the files that are read. Not thread-safe.
class FilePlaces {
 public:
  /// Files are read where they are.
  FilePlaces() = default;
  /// Files are read from copies in `stage_dir`; empty: where they are. Throws FileError as `StageDir` does.
  explicit FilePlaces(const std::filesystem::path& stage_dir, StorageProbe probe = {});

  /// Returns whether files are read from copies.
  bool staged() const noexcept { return stage_dir_.has_value(); }

  /// Copies those of the files that have no valid copy. Does nothing without a `stage_dir`. Blocks and throws
  /// as `StageDir::copies_of`.
  void prepare(std::span<const std::filesystem::path> files);

  /// Returns the path that `file` is read from, the same for each call; the argument without a `stage_dir`.
  /// Blocks and throws as `prepare`.
  const std::filesystem::path& place_of(const std::filesystem::path& file);

  /// Notes that `file` itself is read. Looks at the file system of each device once.
  void read_in_place(const std::filesystem::path& file);

  /// Returns the first file noted by `read_in_place` that is on a network file system.
  const std::optional<RemoteFile>& remote() const noexcept { return remote_; }

 private:
  StorageProbe probe_;
  std::optional<StageDir> stage_dir_;
  std::unordered_map<std::string, std::filesystem::path> places_;
  std::optional<std::uint64_t> last_device_;
  std::optional<RemoteFile> remote_;
};

}  // namespace h5feed
