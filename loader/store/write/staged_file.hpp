// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name either complete or not at all.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/byte_units.hpp"
#include "base/files/file_descriptor.hpp"

namespace h5feed {

/// Bytes that libhdf5 may add to a file in addition to the data of one call: nodes of a chunk index, headers.
inline constexpr std::uint64_t kMetadataRoomBytes = kMiB;

/// Allocates storage for bytes [offset, offset + bytes) of an open file without changing its size, so that
/// later writes there cannot run out of space. Returns 0, or ENOSPC, EDQUOT or EFBIG (above the process's
/// limit) if there is no space, which it then leaves to others. Also returns 0 if the file system does not
/// support it.
int claim_storage(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

/// Throws FileError that explains an error of `claim_storage` for `bytes` of `file`.
[[noreturn]] void throw_full(const std::filesystem::path& file, std::uint64_t bytes, int error);

/// A temporary name next to a target (`temporary_beside`), under which the caller creates the file. Not
/// thread-safe.
class StagedFile {
 public:
  /// Chooses the temporary name. If the target is a link, the file it points to is replaced, not the link.
  /// Throws FileError if the target exists (unless `overwrite`), is not a regular file, or its directory is
  /// missing or not writable.
  StagedFile(std::filesystem::path target, bool overwrite);
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  /// Removes the temporary file unless `commit` succeeded.
  ~StagedFile();

  /// Returns the final path, with links resolved.
  const std::filesystem::path& target() const noexcept { return target_; }
  /// Returns the path under which the caller creates the file.
  const std::filesystem::path& temporary() const noexcept { return temporary_; }

  /// Creates the temporary file, claims storage for its first `bytes` and removes it, to detect missing space
  /// or permissions before work begins. Removes what killed processes left of this target
  /// (`remove_abandoned_temporaries`). Throws FileError.
  void probe(std::uint64_t bytes) const;

  /// Opens the temporary file, which must exist, and holds it (`hold_temporary`); call it when the file was
  /// created. `reserve` and `commit` do so as well. Throws FileError.
  void hold();

  /// Claims storage for the first `bytes` of the temporary file, which must exist, without changing its size,
  /// so that later writes there cannot run out of space. Does nothing if the file system does not support it.
  /// Throws FileError if storage is full or the process's file size limit is exceeded.
  void reserve(std::uint64_t bytes);

  /// Counts `bytes` written to the temporary file and starts writeback from time to time, so that `commit`
  /// has little left to wait for. Does not wait for storage.
  void wrote(std::uint64_t bytes) noexcept;

  /// Syncs the temporary file to storage and renames it onto the target. A file that it replaces hands on its
  /// permissions, and its owner and group where this process may give files to them. Blocks until storage has
  /// it. Throws FileError; the target is then unchanged, unless the sync of its directory failed after the
  /// rename.
  void commit();

 private:
  // Returns what the system says of the file that is to be replaced, if there is one.
  std::optional<struct stat> status_of_replaced() const noexcept;

  const std::filesystem::path target_;
  const std::filesystem::path temporary_;
  const bool overwrite_;
  FileDescriptor file_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t unsent_bytes_ = 0;  // Written since the last writeback
  bool committed_ = false;
};

}  // namespace h5feed
