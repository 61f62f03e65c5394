// SPDX-License-Identifier: Apache-2.0
#include "base/files/scratch_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files/storage_kind.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// The file in each folder that its process keeps locked. A folder without it is not one of these.
constexpr const char* kLock = ".h5feed-scratch";
constexpr std::string_view kRandom = "XXXXXX";

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

FileDescriptor open_folder(int parent, const char* name) noexcept {
  return FileDescriptor(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> entries_of(int folder) {
  std::vector<std::string> names;
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseFolder> open(::fdopendir(own));
  if (!open && own >= 0) ::close(own);
  while (open) {
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Removes everything in a folder but the lock.
void clear_folder(int folder) {
  for (const std::string& name : entries_of(folder)) {
    if (name == kLock || ::unlinkat(folder, name.c_str(), 0) == 0) continue;
    const FileDescriptor inner = open_folder(folder, name.c_str());
    if (!inner.valid()) continue;
    clear_folder(inner.get());
    ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
  }
}

// Removes a folder whose lock this process holds. The lock goes last: a folder that is half removed is still
// known for what it is.
void remove_folder(int parent, const char* name, int folder) {
  clear_folder(folder);
  ::unlinkat(folder, kLock, 0);
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

bool is_private(int folder) noexcept {
  struct stat status = {};
  return ::fstat(folder, &status) == 0 && status.st_uid == ::geteuid() && (status.st_mode & 0777U) == 0700;
}

void remove_if_abandoned(int parent, const char* name) {
  const FileDescriptor folder = open_folder(parent, name);
  if (!folder.valid() || !is_private(folder.get())) return;
  const FileDescriptor lock(::openat(folder.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) remove_folder(parent, name, folder.get());
}

void remove_abandoned(const std::filesystem::path& parent, std::string_view prefix) {
  const FileDescriptor place(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.valid() || storage_kind(parent).remote) return;
  for (const std::string& name : entries_of(place.get())) {
    if (name.starts_with(prefix) && name.size() == prefix.size() + kRandom.size())
      remove_if_abandoned(place.get(), name.c_str());
  }
}

// Creates the lock of a new folder and takes it. Returns nothing where another process that looks for
// abandoned folders came between the two and removes this one; an empty descriptor, with errno, where it
// failed.
std::optional<FileDescriptor> lock_in(int folder) noexcept {
  FileDescriptor lock(::openat(folder, kLock, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock.valid()) return lock;
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  // Where files cannot be locked, no other process can take the lock of this one.
  struct stat status = {};
  if (::fstat(lock.get(), &status) == 0 && status.st_nlink == 0) return std::nullopt;
  return lock;
}

}  // namespace

std::filesystem::path temporary_place() {
  const char* const set = std::getenv("TMPDIR");
  return set != nullptr && *set != 0 ? set : "/tmp";
}

ScratchFolder::ScratchFolder(const std::filesystem::path& parent, std::string_view name) {
  const std::filesystem::path place = std::filesystem::absolute(parent);
  const std::string prefix = fmt::format("{}-", name);
  remove_abandoned(place, prefix);
  const auto fail = [&](int error) {
    throw FileError(
        fmt::format("{}: cannot be written: {}", parent.string(), std::generic_category().message(error)));
  };
  while (true) {
    std::string pattern = (place / (prefix + std::string(kRandom))).string();
    if (::mkdtemp(pattern.data()) == nullptr) fail(errno);
    path_ = pattern;
    folder_ = open_folder(AT_FDCWD, path_.c_str());
    std::optional<FileDescriptor> lock = folder_.valid() ? lock_in(folder_.get()) : FileDescriptor();
    if (!lock) continue;
    if (!lock->valid()) {
      const int error = errno;
      ::rmdir(path_.c_str());
      fail(error);
    }
    lock_ = *std::move(lock);
    return;
  }
}

ScratchFolder::~ScratchFolder() {
  try {
    remove_folder(AT_FDCWD, path_.c_str(), folder_.get());
  } catch (const std::exception&) {  // no memory for the names: the next folder's owner removes it
  }
}

}  // namespace h5feed
