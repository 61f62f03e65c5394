// SPDX-License-Identifier: Apache-2.0
#include "store/stage/checked_copy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/files/file_descriptor.hpp"
#include "base/interrupt.hpp"
#include "base/threads/share_out.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlock = 4 * kMiB;
// Network file systems serve several reads at once faster than one.
constexpr std::uint64_t kMostThreads = 4;

[[noreturn]] void fail(const fs::path& target, std::uint64_t bytes, std::string_view action, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    throw FileError(
        fmt::format("stage_dir: {}: no space for a copy of {}: {}; free some space, name another directory, "
                    "or leave stage_dir unset",
                    target.string(), format_bytes(bytes), std::generic_category().message(error)));
  }
  throw FileError(fmt::format("stage_dir: {} cannot be {}: {}; name another directory", target.string(),
                              action, std::generic_category().message(error)));
}

// Calls `work(block, begin, buffer)` for each block of a file, on several threads. Throws the first
// exception.
void for_each_block(std::uint64_t bytes,
                    const std::function<void(std::size_t, std::uint64_t, std::span<std::byte>)>& work) {
  const std::uint64_t blocks = (bytes + kBlock - 1) / kBlock;
  share_out(blocks, kMostThreads, [&] {
    return [&, buffer = ByteBuffer(std::min(kBlock, bytes))](std::uint64_t block) mutable {
      check_interrupt();
      const std::uint64_t begin = block * kBlock;
      work(block, begin, buffer.span().first(std::min(kBlock, bytes - begin)));
    };
  });
}

std::uint32_t checksum(std::span<const std::byte> bytes) noexcept {
  return libdeflate_crc32(0, bytes.data(), bytes.size());
}

void write_all(int fd, std::uint64_t offset, std::span<const std::byte> bytes, const fs::path& target,
               std::uint64_t file_bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(target, file_bytes, "written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

// Waits until the disk has the file, block by block, because one fsync of a large file cannot be interrupted.
void sync(int fd, const fs::path& target, std::uint64_t bytes) {
  constexpr unsigned kWritten =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (std::uint64_t begin = 0; begin < bytes; begin += kBlock) {
    check_interrupt();
    // Not every file system has it; those leave all to fsync.
    if (::sync_file_range(fd, static_cast<off64_t>(begin), kBlock, kWritten) == 0) continue;
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT) fail(target, bytes, "synced", errno);
    break;
  }
  if (::fsync(fd) != 0) fail(target, bytes, "synced", errno);
}

void copy(const ByteSource& source, const fs::path& target, std::uint64_t bytes,
          const std::function<void()>& before_compare) {
  const FileDescriptor file(
      ::open(target.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file.valid()) fail(target, bytes, "created", errno);
  // Not every file system can reserve space.
  if (bytes > 0 && ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    fail(target, bytes, "written", errno);
  }
  std::vector<std::uint32_t> checksums((bytes + kBlock - 1) / kBlock);
  for_each_block(bytes, [&](std::size_t block, std::uint64_t begin, std::span<std::byte> buffer) {
    source.read(begin, buffer);
    checksums[block] = checksum(buffer);
    write_all(file.get(), begin, buffer, target, bytes);
  });
  sync(file.get(), target, bytes);
  // The pages are dropped, so that the comparison sees what the storage holds.
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (before_compare) before_compare();
  const auto stored = open_file_source(target);
  for_each_block(bytes, [&](std::size_t block, std::uint64_t begin, std::span<std::byte> buffer) {
    stored->read(begin, buffer);
    if (checksum(buffer) == checksums[block]) return;
    throw FileError(
        fmt::format("stage_dir: {}: bytes {} to {} differ from what was written; check the disk, or name "
                    "another directory",
                    target.string(), begin, begin + buffer.size()));
  });
}

}  // namespace

void copy_checked(const fs::path& source, const fs::path& target, std::uint64_t bytes,
                  const std::function<void()>& before_compare) {
  const auto from = open_file_source(source);
  try {
    copy(*from, target, bytes, before_compare);
  } catch (...) {
    ::unlink(target.c_str());
    throw;
  }
}

}  // namespace h5feed
