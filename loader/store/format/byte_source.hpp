// SPDX-License-Identifier: Apache-2.0
// Random access to the bytes of a file, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "h5feed/error.hpp"

namespace h5feed {

/// Random-access source of bytes. Implementations are thread-safe and keep no read position.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads `out.size()` bytes from `offset` on into `out`. Blocks. Throws FileError on an I/O error or if the
  /// source ends before `out` is full.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// Scatter read: reads contiguous bytes from `offset` on into several buffers, one after the other, in as
  /// few system calls as possible. Blocks. Throws FileError on an I/O error or if the source ends before all
  /// buffers are full.
  virtual void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const {
    for (const std::span<std::byte> out : outs) {
      read(offset, out);
      offset += out.size();
    }
  }

  /// Hints that the bytes (offset, size) will be read soon; may do nothing. Does not wait for them.
  virtual void will_need(std::uint64_t, std::uint64_t) const noexcept {}

  /// Returns whether the byte at `offset` can be read without waiting for storage; true if unknown. Does not
  /// block.
  virtual bool resident(std::uint64_t) const noexcept { return true; }

  /// Returns the size in bytes when the source was opened.
  virtual std::uint64_t size() const noexcept = 0;

  /// Returns how many bytes of storage the source took when it was opened, without the holes of a sparse
  /// file, at most its size; the size if unknown.
  virtual std::uint64_t stored_bytes() const noexcept { return size(); }
};

/// Opens a local regular file for pread(2). Does not wait for the writer of a named pipe. Reads that fail for
/// a moment are repeated (store/format/retrying_source.hpp). Throws FileError if it cannot be opened or is
/// not a regular file, and NoDescriptorError.
std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path);

/// Thrown if a file cannot be opened because the process or the machine has too many open: no fault of the
/// file.
class NoDescriptorError : public FileError {
 public:
  using FileError::FileError;
};

/// Identifies a file and one state of its content (stat(2)): equal if neither was replaced or modified.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;       ///< Size of the file
  std::int64_t modified_s = 0;   ///< Seconds of the modification time
  std::int64_t modified_ns = 0;  ///< Nanoseconds of the modification time

  bool operator==(const FileIdentity&) const = default;
};

/// Returns the identity of the file that `path` names now. Throws FileError if there is none.
FileIdentity file_identity(const std::filesystem::path& path);

/// Returns the identity of the file that `path` names now; empty if it does not exist or stat(2) fails.
std::optional<FileIdentity> find_file_identity(const std::filesystem::path& path) noexcept;

/// Opens a local file that was identified before. Throws FileError if it cannot be opened, is a different
/// file now or is shorter than `expected`; a file that has grown is accepted.
std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path,
                                                   const FileIdentity& expected);

}  // namespace h5feed
