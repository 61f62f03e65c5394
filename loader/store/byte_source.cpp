#include "store/byte_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/byte_units.hpp"
#include "base/file_descriptor.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// The kernel transfers at most 2^31 - 4096 bytes a call.
constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;

class FileSource final : public ByteSource {
 public:
  FileSource(std::string name, FileDescriptor fd, std::uint64_t size)
      : name_(std::move(name)), fd_(std::move(fd)), size_(size) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::size_t done = 0;
    while (done < out.size()) {
      const std::size_t want = std::min(out.size() - done, kMaxReadBytes);
      const ssize_t got = ::pread(fd_.get(), out.data() + done, want, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw FileError(fmt::format("{}: reading {} bytes at offset {} failed: {}; check the storage", name_,
                                    format_count(out.size()), format_count(offset),
                                    std::generic_category().message(errno)));
      }
      if (got == 0) {
        throw FileError(fmt::format(
            "{}: the file ended while reading {} bytes at offset {}; it changed while in use, open it again",
            name_, format_count(out.size()), format_count(offset)));
      }
      done += static_cast<std::size_t>(got);
    }
  }

  std::uint64_t size() const noexcept override { return size_; }

 private:
  const std::string name_;
  const FileDescriptor fd_;
  const std::uint64_t size_;
};

std::string reason_not_opened(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "no such file";
    case EACCES:
    case EPERM:
      return "no permission to read it; check its mode and owner";
    default:
      return fmt::format("cannot be opened: {}", std::generic_category().message(error));
  }
}

}  // namespace

std::shared_ptr<const ByteSource> open_file_source(const std::filesystem::path& path) {
  const std::string name = path.string();
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) throw FileError(fmt::format("{}: {}", name, reason_not_opened(errno)));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) {
    throw FileError(fmt::format("{}: {}", name, reason_not_opened(errno)));
  }
  if (S_ISDIR(status.st_mode)) throw FileError(fmt::format("{}: is a directory; name a file in it", name));
  if (!S_ISREG(status.st_mode)) {
    throw FileError(fmt::format("{}: is not a regular file; copy it to one first", name));
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return std::make_shared<FileSource>(name, std::move(fd), size);
}

}  // namespace h5feed
