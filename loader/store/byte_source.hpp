// Bytes of a file by offset, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace h5feed {

/// Random-access bytes. Implementations are thread-safe and keep no position.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Fills `out` from `offset` on. Blocks. Throws FileError on an I/O error or when the source ends
  /// before `out` is full.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// Bytes at the time of opening.
  virtual std::uint64_t size() const noexcept = 0;
};

/// Opens a local file for pread(2). Throws FileError.
std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path);

}  // namespace h5feed
