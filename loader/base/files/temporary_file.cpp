// SPDX-License-Identifier: Apache-2.0
#include "base/files/temporary_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "base/files/folder_of.hpp"
#include "base/files/storage_kind.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kDigits = 12;

// Of a long name only as much as leaves room for the rest (NAME_MAX), up to the end of a character of UTF-8.
// One that no file can have stays too long, so that nobody works for it.
std::string prefix_of(const std::filesystem::path& target) {
  constexpr std::size_t kMostBytes = NAME_MAX - std::string_view("..tmp-").size() - kDigits;
  std::string name = target.filename().string();
  if (name.size() > kMostBytes && name.size() <= NAME_MAX) {
    std::size_t end = kMostBytes;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
    name.resize(end);
  }
  return fmt::format(".{}.tmp-", name);
}

bool is_temporary(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() != prefix.size() + kDigits) return false;
  return name.substr(prefix.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Whether the file lies on a file system that no other machine writes to, as far as its kind tells.
bool is_of_this_machine(const std::filesystem::path& file) noexcept {
  constexpr std::array<std::string_view, 15> kLocal = {"ext2", "ext3",  "ext4",  "xfs",       "btrfs",
                                                       "f2fs", "zfs",   "tmpfs", "overlayfs", "bcachefs",
                                                       "jfs",  "ramfs", "vfat",  "exfat",     "ntfs3"};
  try {
    return std::ranges::find(kLocal, storage_kind(file).name) != kLocal.end();
  } catch (const std::exception&) {
    return false;  // no memory to ask
  }
}

bool lock_whole(int fd) noexcept {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void remove_unless_held(const std::filesystem::path& file, LeftBy left_by) noexcept {
  const FileDescriptor fd(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return;
  const bool own = S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
  const bool young = ::time(nullptr) - status.st_mtim.tv_sec <= 1;
  if (!own || (young && left_by == LeftBy::any_process)) return;
  if (lock_whole(fd.get())) ::unlink(file.c_str());
}

}  // namespace

std::filesystem::path temporary_beside(const std::filesystem::path& target) {
  std::uint64_t both = 0;
  if (::getrandom(&both, sizeof both, 0) != sizeof both)
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return target.parent_path() / fmt::format("{}{:0{}x}", prefix_of(target), both >> 16, kDigits);
}

void hold_temporary(int fd, const std::filesystem::path& file) noexcept {
  if (is_of_this_machine(file)) lock_whole(fd);
}

void remove_abandoned_temporaries(const std::filesystem::path& target, LeftBy left_by) noexcept {
  try {
    const std::filesystem::path folder = folder_of(target);
    const std::string prefix = prefix_of(target);
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (is_temporary(entry->path().filename().string(), prefix)) found.push_back(entry->path());
    }
    if (found.empty() || !is_of_this_machine(folder)) return;
    for (const std::filesystem::path& file : found) remove_unless_held(file, left_by);
  } catch (const std::exception&) {  // no memory for the names: a later process removes them
  }
}

}  // namespace h5feed
