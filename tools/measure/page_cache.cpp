// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/page_cache.hpp"
#include "base/clock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed::cli {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, std::string_view what) {
  throw FileError(
      fmt::format("{}: {} ({}); check the file and its storage", file.string(), what, std::strerror(errno)));
}

FileDescriptor open_file(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) fail(file, "cannot be opened");
  return fd;
}

std::uint64_t size_of_file(int fd, const std::filesystem::path& file) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail(file, "its size cannot be told");
  return static_cast<std::uint64_t>(status.st_size);
}

// Maps a part of a file without touching its pages.
class Mapping {
 public:
  Mapping(int fd, std::uint64_t offset, std::size_t bytes) noexcept
      : address_(::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, static_cast<off_t>(offset))),
        bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (valid()) ::munmap(address_, bytes_);
  }
  bool valid() const noexcept { return address_ != MAP_FAILED; }
  void* address() const noexcept { return address_; }

 private:
  void* address_;
  std::size_t bytes_;
};

// Returns whether mincore(2) tells the truth about this file: since Linux 5.2 it reports every page as
// resident to those who may not write the file.
bool mincore_tells(int fd, const std::filesystem::path& file) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && (status.st_uid == ::geteuid() || ::access(file.c_str(), W_OK) == 0);
}

std::optional<double> resident_share(int fd, const std::filesystem::path& file) {
  constexpr std::uint64_t kWindowBytes = 64 * kMiB;  // address space may be limited
  if (!mincore_tells(fd, file)) return std::nullopt;
  const std::uint64_t bytes = size_of_file(fd, file);
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  std::vector<unsigned char> states;
  for (std::uint64_t offset = 0; offset < bytes; offset += kWindowBytes) {
    const auto window = static_cast<std::size_t>(std::min(kWindowBytes, bytes - offset));
    const Mapping mapping(fd, offset, window);
    states.resize((window + page_bytes - 1) / page_bytes);
    if (!mapping.valid() || ::mincore(mapping.address(), window, states.data()) != 0) {
      fail(file, "which of its pages are in memory cannot be told");
    }
    pages += states.size();
    resident += static_cast<std::uint64_t>(
        std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1U) != 0; }));
  }
  return pages == 0 ? 0 : static_cast<double>(resident) / static_cast<double>(pages);
}

double drop_pages(int fd, const std::filesystem::path& file) {
  // The kernel does not drop dirty pages. A read-only file system has none, and returns EROFS or EINVAL.
  if (::fdatasync(fd) != 0 && errno != EROFS && errno != EINVAL) fail(file, "cannot be written back");
  if (const int code = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); code != 0) {
    errno = code;
    fail(file, "its pages cannot be dropped");
  }
  const std::optional<double> share = resident_share(fd, file);
  if (!share) {
    throw FileError(
        fmt::format("{}: the kernel tells only owners and writers of a file whether its pages were dropped; "
                    "measure a copy",
                    file.string()));
  }
  return *share;
}

// Returns "process 4711 (python3)" for a process that maps the file; empty if none is visible.
std::string mapping_process(int fd) {
  struct stat wanted {};
  if (::fstat(fd, &wanted) != 0) return {};
  const std::string inode = fmt::format(" {} ", wanted.st_ino);
  std::error_code error;
  for (std::filesystem::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string name = process->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream maps(process->path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      const std::size_t path = line.find('/');
      if (path == std::string::npos || line.find(inode) >= path) continue;
      struct stat mapped {};
      if (::stat(line.c_str() + path, &mapped) != 0 || mapped.st_ino != wanted.st_ino ||
          mapped.st_dev != wanted.st_dev) {
        continue;
      }
      std::string command;
      std::getline(std::ifstream(process->path() / "comm") >> std::ws, command);
      return fmt::format("process {} ({})", name, command);
    }
  }
  return {};
}

std::string reason_resident(int fd) {
  struct statfs filesystem {};
  if (::fstatfs(fd, &filesystem) == 0) {
    const auto type = static_cast<unsigned long>(filesystem.f_type);
    if (type == TMPFS_MAGIC || type == RAMFS_MAGIC) {
      return "its file system is in memory (tmpfs); measure a copy on a disk";
    }
  }
  if (const std::string process = mapping_process(fd); !process.empty()) {
    return fmt::format("{} maps it; end that process, or measure a copy", process);
  }
  return "another process may be reading it, or its file system keeps them; measure a copy on another disk";
}

}  // namespace

std::optional<double> resident_share(const std::filesystem::path& file) {
  return resident_share(open_file(file).get(), file);
}

double drop_pages(const std::filesystem::path& file) { return drop_pages(open_file(file).get(), file); }

void require_droppable(const std::filesystem::path& file) {
  const FileDescriptor fd = open_file(file);
  const double share = drop_pages(fd.get(), file);
  if (share <= kColdEnough) return;
  throw FileError(fmt::format("{}: cannot be measured cold: {:.3g} % of its pages stay in memory: {}",
                              file.string(), share * 100, reason_resident(fd.get())));
}

bool load_pages(const std::filesystem::path& file, std::chrono::nanoseconds limit) {
  const Clock::time_point start = Clock::now();
  const auto source = open_file_source(file);
  ByteBuffer buffer(static_cast<std::size_t>(std::min(source->size(), 4 * kMiB)));
  for (std::uint64_t offset = 0; offset < source->size(); offset += buffer.size()) {
    if (Clock::now() - start >= limit) return false;
    source->read(offset, buffer.span().first(static_cast<std::size_t>(
                             std::min<std::uint64_t>(buffer.size(), source->size() - offset))));
  }
  return true;
}

}  // namespace h5feed::cli
