// SPDX-License-Identifier: Apache-2.0
#include "store/format/byte_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/format/retrying_source.hpp"

namespace h5feed {
namespace {

// The kernel transfers at most 2^31 - 4096 bytes per call.
constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;

// Maximum number of buffers per preadv(2), well below the system's IOV_MAX of 1024.
constexpr std::size_t kMaxBuffers = 64;

class FileSource final : public ByteSource {
 public:
  FileSource(std::string name, FileDescriptor fd, const struct stat& status)
      : name_(std::move(name)),
        fd_(std::move(fd)),
        size_(static_cast<std::uint64_t>(status.st_size)),
        stored_bytes_(stored(status)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    for (std::size_t done = 0; done < out.size();) {
      const std::size_t want = std::min(out.size() - done, kMaxReadBytes);
      const ssize_t got = ::pread(fd_.get(), out.data() + done, want, static_cast<off_t>(offset + done));
      done += bytes_of(got, offset, out.size());
    }
  }

  // After a short read, each buffer that is not full is read by a call of its own.
  void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const override {
    std::array<iovec, kMaxBuffers> buffers;
    while (!outs.empty()) {
      std::size_t count = 0;
      std::size_t want = 0;
      while (count < outs.size() && count < kMaxBuffers && want + outs[count].size() <= kMaxReadBytes) {
        buffers[count] = {outs[count].data(), outs[count].size()};
        want += outs[count++].size();
      }
      if (count == 0) {  // One buffer larger than the limit of a call
        read(offset, outs.front());
        offset += outs.front().size();
        outs = outs.subspan(1);
        continue;
      }
      std::size_t got =
          bytes_of(::preadv(fd_.get(), buffers.data(), static_cast<int>(count), static_cast<off_t>(offset)),
                   offset, want);
      for (const std::span<std::byte> out : outs.first(count)) {
        const std::size_t filled = std::min(got, out.size());
        if (filled < out.size()) read(offset + filled, out.subspan(filled));
        got -= filled;
        offset += out.size();
      }
      outs = outs.subspan(count);
    }
  }

  void will_need(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    ::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
  }

  bool resident(std::uint64_t offset) const noexcept override {
    std::byte byte{};
    const iovec buffer{&byte, 1};
    // Some file systems do not support the flag: residency is then unknown.
    return ::preadv2(fd_.get(), &buffer, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1 || errno != EAGAIN;
  }

  std::uint64_t size() const noexcept override { return size_; }
  std::uint64_t stored_bytes() const noexcept override { return stored_bytes_; }

 private:
  // Some file systems count no blocks.
  static std::uint64_t stored(const struct stat& status) noexcept {
    constexpr std::uint64_t kBlockBytes = 512;  // Whatever the blocks of the file system are
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const auto blocks = static_cast<std::uint64_t>(status.st_blocks);
    return blocks == 0 ? size : std::min(size, blocks * kBlockBytes);
  }

  // Returns the bytes that a system call has read; 0 if it was interrupted.
  std::size_t bytes_of(ssize_t got, std::uint64_t offset, std::size_t want) const {
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) return 0;
    if (got < 0) {
      const int error = errno;
      const std::string text =
          fmt::format("{}: reading {} bytes at offset {} failed: {}; check the storage", name_,
                      format_count(want), format_count(offset), std::generic_category().message(error));
      if (may_pass(error)) throw PassingReadError(text);
      throw FileError(text);
    }
    throw FileError(fmt::format(
        "{}: the file ended while reading {} bytes at offset {}; it changed while in use, open it again",
        name_, format_count(want), format_count(offset)));
  }

  const std::string name_;
  const FileDescriptor fd_;
  const std::uint64_t size_;
  const std::uint64_t stored_bytes_;
};

std::string reason_not_opened(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "no such file; check the path";
    case EACCES:
    case EPERM:
      return "no permission to read it; check its mode and owner";
    default:
      return fmt::format("cannot be opened: {}", std::generic_category().message(error));
  }
}

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

std::shared_ptr<const ByteSource> open_source(const std::filesystem::path& path,
                                              const FileIdentity* expected) {
  const std::string name = path.string();
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EMFILE || error == ENFILE) {
      throw NoDescriptorError(fmt::format("{}: cannot be opened: {}; raise the limit (ulimit -n)", name,
                                          std::generic_category().message(error)));
    }
    throw FileError(fmt::format("{}: {}", name, reason_not_opened(error)));
  }
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) {
    throw FileError(fmt::format("{}: {}", name, reason_not_opened(errno)));
  }
  if (S_ISDIR(status.st_mode)) throw FileError(fmt::format("{}: is a directory; name a file in it", name));
  if (!S_ISREG(status.st_mode)) {
    throw FileError(fmt::format("{}: is not a regular file; copy it to one first", name));
  }
  const FileIdentity now = identity_of(status);
  if (expected != nullptr &&
      (now.device != expected->device || now.inode != expected->inode || now.bytes < expected->bytes)) {
    throw FileError(
        fmt::format("{}: the file was replaced or cut short since it was opened; open it again", name));
  }
  return make_retrying(std::make_shared<FileSource>(name, std::move(fd), status));
}

}  // namespace

std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path) {
  return open_source(path, nullptr);
}

std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path,
                                                   const FileIdentity& expected) {
  return open_source(path, &expected);
}

std::optional<FileIdentity> find_file_identity(const std::filesystem::path& path) noexcept {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return identity_of(status);
}

FileIdentity file_identity(const std::filesystem::path& path) {
  if (const auto identity = find_file_identity(path)) return *identity;
  throw FileError(fmt::format("{}: {}", path.string(), reason_not_opened(errno)));
}

}  // namespace h5feed
