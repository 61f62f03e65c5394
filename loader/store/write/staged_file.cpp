// SPDX-License-Identifier: Apache-2.0
#include "store/write/staged_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/file_descriptor.hpp"
#include "base/files/folder_of.hpp"
#include "base/files/temporary_file.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Storage is claimed in steps of this size; writeback starts every few steps.
constexpr std::uint64_t kStep = 8 * kMiB;

constexpr mode_t kPermissions = S_IRWXU | S_IRWXG | S_IRWXO;

[[noreturn]] void fail(const std::filesystem::path& target, std::string_view action, int error) {
  throw FileError(
      fmt::format("{}: cannot {}: {}", target.string(), action, std::generic_category().message(error)));
}

[[noreturn]] void fail_existing(const std::filesystem::path& target) {
  throw FileError(fmt::format("{} exists; choose another name, or --force to replace it", target.string()));
}

[[noreturn]] void fail_irregular(const std::filesystem::path& target) {
  throw FileError(fmt::format("{}: not a regular file; choose another name", target.string()));
}

// Returns what a link points at, so that the link itself is not replaced; other paths unchanged.
std::filesystem::path behind_link(std::filesystem::path path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  // Links such as /dev/stdout lead to what is open: the file behind it, if it is one, holds what others wrote
  // there.
  const std::string text = path.string();
  if (text.starts_with("/dev/std") || text.starts_with("/dev/fd/") || text.starts_with("/proc/")) {
    fail_irregular(path);
  }
  std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error) {
    throw FileError(fmt::format("{}: a link that leads nowhere ({}); choose another name", path.string(),
                                error.message()));
  }
  return target;
}

// An attempt to allocate more than there is takes all that is left for a moment, from other programs as well.
bool is_beyond_free_space(int fd, std::uint64_t end) noexcept {
  struct statvfs space = {};
  struct stat status = {};
  if (::fstatvfs(fd, &space) != 0 || ::fstat(fd, &status) != 0) return false;
  constexpr std::uint64_t kBlock = 512;  // Of st_blocks
  // Blocks beyond the end are allocated already; a file system that compresses needs fewer than the file is
  // long.
  const std::uint64_t there = std::max(static_cast<std::uint64_t>(status.st_blocks) * kBlock,
                                       static_cast<std::uint64_t>(status.st_size));
  const std::uint64_t needed = end - std::min(end, there);
  return needed / std::max<std::uint64_t>(1, space.f_frsize) > space.f_bavail;
}

// Gives a file the permissions of the one that it replaces, and its owner and group if this process may. Some
// file systems have none of them.
void take_over_access(int fd, const struct stat& replaced) noexcept {
  mode_t mode = replaced.st_mode & kPermissions;
  if (::fchown(fd, replaced.st_uid, replaced.st_gid) != 0 &&
      ::fchown(fd, static_cast<uid_t>(-1), replaced.st_gid) != 0) {
    mode &= ~static_cast<mode_t>(S_IRWXG);  // meant for another group
  }
  ::fchmod(fd, mode);
}

}  // namespace

int claim_storage(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + bytes > limit.rlim_cur) return EFBIG;
  if (is_beyond_free_space(fd, offset + bytes)) return ENOSPC;
  if (::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0)
    return 0;
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errno : 0;
}

void throw_full(const std::filesystem::path& file, std::uint64_t bytes, int error) {
  if (error == EFBIG) {
    throw FileError(fmt::format("{}: larger than a file may be here; see ulimit -f", file.string()));
  }
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder_of(file), unknown);
  throw FileError(fmt::format(
      "{}: no space left on device: {} are needed there{}; free some or write elsewhere", file.string(),
      format_bytes(bytes), unknown ? "" : fmt::format(", {} are free", format_bytes(space.available))));
}

StagedFile::StagedFile(std::filesystem::path target, bool overwrite)
    : target_(behind_link(std::move(target))), temporary_(temporary_beside(target_)), overwrite_(overwrite) {
  std::error_code ignored;
  const auto status = std::filesystem::status(target_, ignored);
  if (std::filesystem::is_directory(status)) {
    throw FileError(fmt::format("{}: is a directory; name a file in it", target_.string()));
  }
  if (std::filesystem::is_other(status)) fail_irregular(target_);
  if (std::filesystem::exists(status) && !overwrite_) fail_existing(target_);
  const std::filesystem::path directory = folder_of(target_);
  if (!std::filesystem::is_directory(directory, ignored)) {
    if (std::filesystem::exists(directory, ignored)) {
      throw FileError(fmt::format("{}: {} is not a directory; choose another place", target_.string(),
                                  directory.string()));
    }
    throw FileError(
        fmt::format("{}: there is no directory {}; create it first", target_.string(), directory.string()));
  }
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    throw FileError(fmt::format("{}: the directory {} cannot be written ({}); choose another place",
                                target_.string(), directory.string(),
                                std::generic_category().message(errno)));
  }
}

StagedFile::~StagedFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void StagedFile::probe(std::uint64_t bytes) const {
  const FileDescriptor fd(
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd.valid()) {
    throw FileError(fmt::format("{}: cannot be created there ({}); choose another place", target_.string(),
                                std::generic_category().message(errno)));
  }
  const int error = bytes == 0 ? 0 : claim_storage(fd.get(), 0, bytes);
  ::unlink(temporary_.c_str());
  if (error != 0) throw_full(target_, bytes, error);
  remove_abandoned_temporaries(target_);
}

std::optional<struct stat> StagedFile::status_of_replaced() const noexcept {
  struct stat status = {};
  if (!overwrite_ || ::stat(target_.c_str(), &status) != 0) return std::nullopt;
  return status;
}

void StagedFile::hold() {
  if (file_.valid()) return;
  file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file_.valid()) fail(target_, "open the temporary file", errno);
  hold_temporary(file_.get(), temporary_);
  // From the first value on, nobody can read the file who could not read the one that it replaces.
  if (const auto replaced = status_of_replaced())
    ::fchmod(file_.get(), (replaced->st_mode & kPermissions) | S_IRUSR | S_IWUSR);
}

void StagedFile::reserve(std::uint64_t bytes) {
  // Claims ahead in large steps, for few calls and long extents; if that fails, claims only what is needed.
  if (bytes <= reserved_bytes_) return;
  hold();
  const std::uint64_t ahead = (bytes + kStep - 1) / kStep * kStep;
  if (claim_storage(file_.get(), 0, ahead) == 0) {
    reserved_bytes_ = ahead;
    return;
  }
  if (const int error = claim_storage(file_.get(), 0, bytes); error != 0) throw_full(target_, bytes, error);
  reserved_bytes_ = bytes;
}

void StagedFile::wrote(std::uint64_t bytes) noexcept {
  unsent_bytes_ += bytes;
  if (unsent_bytes_ < 3 * kStep) return;
  unsent_bytes_ = 0;
  // If this fails, or nothing was reserved, commit() has more to wait for. Covers the whole file: libhdf5
  // chooses where it writes, and pages that are clean or in writeback cost nothing.
  ::sync_file_range(file_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
}

void StagedFile::commit() {
  hold();
  // Releases the space reserved beyond the end.
  struct stat status = {};
  if (::fstat(file_.get(), &status) != 0 || ::ftruncate(file_.get(), status.st_size) != 0) {
    fail(target_, "finish it", errno);
  }
  if (const auto replaced = status_of_replaced()) take_over_access(file_.get(), *replaced);
  if (::fsync(file_.get()) != 0) fail(target_, "make it durable", errno);
  // The target may have been created in the meantime; not every file system can refuse that atomically.
  const unsigned flags = overwrite_ ? 0 : RENAME_NOREPLACE;
  int result = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), flags);
  if (result != 0 && flags != 0 && (errno == EINVAL || errno == ENOSYS)) {
    result = ::rename(temporary_.c_str(), target_.c_str());
  }
  if (result != 0 && errno == EEXIST) fail_existing(target_);
  if (result != 0) fail(target_, "rename the finished file", errno);
  committed_ = true;
  const FileDescriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || ::fsync(folder.get()) != 0) fail(target_, "make it durable", errno);
}

}  // namespace h5feed
