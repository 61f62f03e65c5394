// SPDX-License-Identifier: Apache-2.0
#include "store/stage/stage_dir.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/files/file_descriptor.hpp"
#include "base/interrupt.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/stage/checked_copy.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

std::string reason_of(int error) { return std::generic_category().message(error); }

// FNV-1a (Fowler, Noll, Vo): tells sources of the same name apart. The record has the whole path, so equal
// values would only make two sources replace each other's copy.
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string state_text(std::string_view what, const FileIdentity& identity) {
  return fmt::format("{0}_bytes {1}\n{0}_modified {2}.{3:09}\n{0}_inode {4}\n", what, identity.bytes,
                     identity.modified_s, identity.modified_ns, identity.inode);
}

// Returns the text of the record. The device number is left out: that of a network file system changes from
// mount to mount.
std::string record_text(const fs::path& source, const FileIdentity& of_source, const FileIdentity& of_copy) {
  return fmt::format("h5feed stage 1\nsource {}\n{}{}end\n", source.string(), state_text("source", of_source),
                     state_text("copy", of_copy));
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// An exclusive lock of a folder, among the processes of the host.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : file_(
            ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR)) {
    if (!file_.valid())
      throw FileError(fmt::format("stage_dir: {} cannot be written: {}; name another directory",
                                  (folder / "lock").string(), reason_of(errno)));
    // A call that waits for the lock could not be interrupted.
    for (bool said = false; ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0; said = true) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        throw FileError(fmt::format("stage_dir: {} cannot be locked: {}; name a directory on a local disk",
                                    (folder / "lock").string(), reason_of(errno)));
      }
      if (!said) {
        log(LogLevel::info,
            fmt::format("stage_dir: waiting for another process that copies files to {}", folder.string()));
      }
      check_interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  const FileDescriptor file_;
};

void sync_folder(const fs::path& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) ::fsync(fd.get());
}

void write_record(const fs::path& path, std::string_view text) {
  const fs::path temporary = path.string() + ".part";
  const FileDescriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  const bool written = file.valid() &&
                       ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(file.get()) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  throw FileError(
      fmt::format("stage_dir: {} cannot be written: {}; free some space or name another directory",
                  path.string(), reason_of(error)));
}

}  // namespace

struct StageDir::Copy {
  fs::path source;     // As the user named it
  fs::path canonical;  // Absolute, with links resolved
  FileIdentity identity;
  fs::path place;
  bool valid = false;

  fs::path record() const { return place.string() + ".stage"; }
};

StageDir::StageDir(fs::path directory, StorageProbe probe)
    : directory_(std::move(directory)), probe_(std::move(probe)) {
  std::error_code error;
  if (!fs::is_directory(directory_, error)) {
    throw FileError(fmt::format("stage_dir: {} {}; create it, or name another directory on a local disk",
                                directory_.string(),
                                fs::exists(directory_, error) ? "is not a directory" : "does not exist"));
  }
  folder_ = fs::absolute(directory_) / fmt::format("h5feed-{}", ::geteuid());
  if (::mkdir(folder_.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    throw FileError(fmt::format("stage_dir: {} cannot be written: {}; name another directory",
                                directory_.string(), reason_of(errno)));
  }
  // In a directory that everybody may write to, the name may have been taken by another user.
  struct stat status = {};
  if (::lstat(folder_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) {
    throw FileError(fmt::format("stage_dir: {} is not a directory of this user; name another directory",
                                folder_.string()));
  }
}

StageDir::Copy StageDir::examine(const fs::path& source) const {
  Copy copy{.source = source, .canonical = {}, .identity = file_identity(source), .place = {}};
  std::error_code error;
  copy.canonical = fs::canonical(source, error);
  if (error) throw FileError(fmt::format("{}: {}", source.string(), error.message()));
  const std::string path = copy.canonical.string();
  // Names of files have at most 255 bytes; the end of this one is needed.
  std::string name = copy.canonical.filename().string();
  constexpr std::size_t kMostBytes = 200;
  if (name.size() > kMostBytes) name.erase(0, name.size() - kMostBytes);
  copy.place = folder_ / fmt::format("{:016x}-{}", hash_of(path), name);
  struct stat status = {};
  if (::lstat(copy.place.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return copy;
  const auto of_copy = find_file_identity(copy.place);
  copy.valid = of_copy && of_copy->bytes == copy.identity.bytes &&
               read_text(copy.record()) == record_text(copy.canonical, copy.identity, *of_copy);
  return copy;
}

void StageDir::require_space(std::span<const Copy> missing) const {
  std::uint64_t needed = 0;
  for (const Copy& copy : missing) needed += copy.identity.bytes;
  struct ::statfs status = {};
  if (probe_.statfs(folder_.c_str(), &status) != 0) return;  // the copy itself reports a full disk
  const auto block = static_cast<std::uint64_t>(status.f_bsize);
  const std::uint64_t free = status.f_bavail * block;
  const std::uint64_t kept = std::min(kGiB, status.f_blocks * block / 20);
  if (needed + kept <= free) return;
  throw FileError(
      fmt::format("stage_dir: {} has {} free, of which {} stay free; the copy of {} needs {}; free some "
                  "space, name another directory, or leave stage_dir unset",
                  directory_.string(), format_bytes(free), format_bytes(kept),
                  missing.size() == 1 ? missing.front().source.string()
                                      : fmt::format("{} files", format_count(missing.size())),
                  format_bytes(needed)));
}

void StageDir::make(const Copy& copy) const {
  const fs::path temporary = copy.place.string() + ".part";
  constexpr int kAttempts = 3;
  FileIdentity identity = copy.identity;
  for (int attempt = 1;; ++attempt) {
    copy_checked(copy.source, temporary, identity.bytes, [&] {
      if (before_compare) before_compare(temporary);
    });
    const FileIdentity now = file_identity(copy.source);
    if (now == identity) break;
    if (attempt == kAttempts) {
      ::unlink(temporary.c_str());
      throw FileError(fmt::format(
          "{}: changes while it is copied to stage_dir; wait until its writer has closed it, or leave "
          "stage_dir unset",
          copy.source.string()));
    }
    identity = now;
  }
  if (::rename(temporary.c_str(), copy.place.c_str()) != 0) {
    throw FileError(fmt::format("stage_dir: {} cannot be renamed: {}", temporary.string(), reason_of(errno)));
  }
  sync_folder(folder_);
  write_record(copy.record(), record_text(copy.canonical, identity, file_identity(copy.place)));
  sync_folder(folder_);
}

std::vector<fs::path> StageDir::copies_of(std::span<const fs::path> sources) {
  const auto examine_all = [&] {
    std::vector<Copy> copies;
    copies.reserve(sources.size());
    for (const fs::path& source : sources) copies.push_back(examine(source));
    return copies;
  };
  std::vector<Copy> copies = examine_all();
  std::vector<fs::path> places;
  places.reserve(copies.size());
  for (const Copy& copy : copies) places.push_back(copy.place);
  if (std::ranges::all_of(copies, &Copy::valid)) return places;

  const FolderLock lock(folder_);
  // Another process may have copied them meanwhile.
  copies = examine_all();
  std::set<fs::path> seen;
  std::erase_if(copies, [&](const Copy& copy) { return copy.valid || !seen.insert(copy.place).second; });
  if (copies.empty()) return places;
  std::uint64_t bytes = 0;
  for (const Copy& copy : copies) {
    bytes += copy.identity.bytes;
    // An outdated copy is useless, and its space is needed.
    for (const std::string& name :
         {copy.record().string(), copy.place.string(), copy.place.string() + ".part"})
      ::unlink(name.c_str());
  }
  require_space(copies);
  if (const StorageKind kind = storage_kind(folder_, probe_); kind.remote) {
    log(LogLevel::warning,
        fmt::format("stage_dir: {} is itself on {}, a network file system; name a directory on a local disk",
                    directory_.string(), kind.name));
  }
  const std::string files = copies.size() == 1 ? copies.front().source.string()
                                               : fmt::format("{} files", format_count(copies.size()));
  log(LogLevel::info, fmt::format("stage_dir: copying {}, {}, from {} to {}", files, format_bytes(bytes),
                                  storage_kind(copies.front().source, probe_).name, folder_.string()));
  const Clock::time_point begin = Clock::now();
  for (const Copy& copy : copies) make(copy);
  const double seconds = seconds_since(begin);
  log(LogLevel::info, fmt::format("stage_dir: copied {}, {}, in {:.1f} s ({}/s, read back and compared)",
                                  files, format_bytes(bytes), seconds,
                                  format_bytes(static_cast<std::uint64_t>(static_cast<double>(bytes) /
                                                                          std::max(seconds, 1e-9)))));
  return places;
}

}  // namespace h5feed
