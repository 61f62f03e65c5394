// SPDX-License-Identifier: Apache-2.0
// Bytes of a file by offset, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace h5feed {

/// Random-access bytes. Implementations are thread-safe and keep no position.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Fills `out` from `offset` on. Blocks. Throws FileError on an I/O error or when the source ends
  /// before `out` is full.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// Fills buffers that lie apart from bytes that lie together, in one call to the system where it can.
  /// Blocks and throws as `read`.
  virtual void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const {
    for (const std::span<std::byte> out : outs) {
      read(offset, out);
      offset += out.size();
    }
  }

  /// A hint that these bytes will be read soon; may do nothing. Does not wait for them.
  virtual void will_need(std::uint64_t, std::uint64_t) const noexcept {}

  /// Whether the byte at `offset` can be read without waiting for the storage, as far as is known. Does
  /// not wait itself.
  virtual bool resident(std::uint64_t) const noexcept { return true; }

  /// Bytes at the time of opening.
  virtual std::uint64_t size() const noexcept = 0;
};

/// Opens a local file for pread(2). Throws FileError.
std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path);

/// What tells one file from another, and one content of it from another (stat(2)).
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_s = 0;
  std::int64_t modified_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// That of the file which `path` names now. Throws FileError where there is none.
FileIdentity file_identity(const std::filesystem::path& path);

/// The same; nothing where there is no such file, or it cannot be told.
std::optional<FileIdentity> find_file_identity(const std::filesystem::path& path) noexcept;

/// Opens a file again. Throws FileError, also where it is another one by now, or shorter; it may have grown.
std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path,
                                                   const FileIdentity& expected);

}  // namespace h5feed
