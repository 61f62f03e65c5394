// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name complete or not at all.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/byte_units.hpp"

namespace h5feed {

/// What libhdf5 may add to a file beside the data of one call: nodes of a chunk index, headers.
inline constexpr std::uint64_t kMetadataRoomBytes = kMiB;

/// Claims storage for `bytes` of an open file from `offset` on without changing its size, so that writing
/// there cannot run out of space. Returns 0, or ENOSPC, EDQUOT or EFBIG (above the process's limit) where
/// there is no room. 0 as well where the file system has no such call.
int claim_storage(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

/// Throws FileError that says, for an error of `claim_storage`, what `file` has no room for.
[[noreturn]] void throw_full(const std::filesystem::path& file, int error);

/// A temporary name beside a target, ".NAME.tmp-PID". Someone else creates the file under it.
class StagedFile {
 public:
  /// A target that is a link means what the link points at. Throws FileError where the target exists
  /// (unless `overwrite`), is anything but a regular file, or its directory is missing or not writable.
  StagedFile(std::filesystem::path target, bool overwrite);
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  /// Removes the temporary file unless `commit` succeeded.
  ~StagedFile();

  const std::filesystem::path& target() const noexcept { return target_; }
  const std::filesystem::path& temporary() const noexcept { return temporary_; }

  /// Creates the temporary file, claims storage for its first `bytes`, and removes it, for work that is not
  /// to start in vain. Throws FileError.
  void probe(std::uint64_t bytes) const;

  /// Claims storage for the first `bytes` of the temporary file, which exists by now, without changing
  /// its size, so that later writes there cannot run out of space. Does nothing where the file system
  /// has no such call. Throws FileError: no space left, or above the process's limit.
  void reserve(std::uint64_t bytes);

  /// Counts `bytes` that were written to the temporary file, and from time to time starts sending to storage
  /// what was, so that `commit` finds little left to wait for. Does not wait for the storage.
  void wrote(std::uint64_t bytes) noexcept;

  /// Makes the temporary file durable and renames it onto the target, which is untouched on failure.
  /// Blocks for the storage. Throws FileError.
  void commit();

 private:
  const std::filesystem::path target_;
  const std::filesystem::path temporary_;
  const bool overwrite_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t unsent_bytes_ = 0;  // not yet on their way to storage
  bool committed_ = false;
};

}  // namespace h5feed
