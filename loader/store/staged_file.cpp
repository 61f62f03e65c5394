#include "store/staged_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "base/file_descriptor.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& target) {
  return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

std::filesystem::path temporary_name(const std::filesystem::path& target) {
  return directory_of(target) / fmt::format(".{}.tmp-{}", target.filename().string(), ::getpid());
}

[[noreturn]] void fail(const std::filesystem::path& target, std::string_view action, int error) {
  throw FileError(
      fmt::format("{}: cannot {}: {}", target.string(), action, std::generic_category().message(error)));
}

[[noreturn]] void fail_existing(const std::filesystem::path& target) {
  throw FileError(fmt::format("{}: exists; add --force to replace it", target.string()));
}

void sync_to_storage(const std::filesystem::path& path, int flags, const std::filesystem::path& target) {
  const FileDescriptor fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) fail(target, "make it durable", errno);
}

}  // namespace

StagedFile::StagedFile(std::filesystem::path target, bool overwrite)
    : target_(std::move(target)), temporary_(temporary_name(target_)), overwrite_(overwrite) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(target_, ignored);
  if (std::filesystem::is_directory(status)) {
    throw FileError(fmt::format("{}: is a directory; name a file in it", target_.string()));
  }
  if (std::filesystem::exists(status) && !overwrite_) fail_existing(target_);
  const std::filesystem::path directory = directory_of(target_);
  if (!std::filesystem::is_directory(directory, ignored)) {
    throw FileError(
        fmt::format("{}: there is no directory {}; create it first", target_.string(), directory.string()));
  }
}

StagedFile::~StagedFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void StagedFile::commit() {
  sync_to_storage(temporary_, O_RDONLY, target_);
  // Someone may have created the target meanwhile; not every file system can refuse that atomically.
  const unsigned flags = overwrite_ ? 0 : RENAME_NOREPLACE;
  int result = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), flags);
  if (result != 0 && flags != 0 && (errno == EINVAL || errno == ENOSYS)) {
    result = ::rename(temporary_.c_str(), target_.c_str());
  }
  if (result != 0 && errno == EEXIST) fail_existing(target_);
  if (result != 0) fail(target_, "rename the finished file", errno);
  committed_ = true;
  sync_to_storage(directory_of(target_), O_RDONLY | O_DIRECTORY, target_);
}

}  // namespace h5feed
