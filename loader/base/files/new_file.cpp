// SPDX-License-Identifier: Apache-2.0
#include "base/files/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/files/temporary_file.hpp"

namespace h5feed {
namespace {

std::error_code last_error() noexcept { return {errno, std::generic_category()}; }

}  // namespace

NewFile::NewFile(std::filesystem::path target)
    : target_(std::move(target)),
      temporary_(temporary_beside(target_)),
      file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                   S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH)) {
  if (!file_.valid()) {
    error_ = last_error();
    return;
  }
  hold_temporary(file_.get(), temporary_);
  remove_abandoned_temporaries(target_);
  // Renaming would replace a device, such as /dev/null, by a file.
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(target_, none);
  if (std::filesystem::is_directory(status)) {
    error_ = std::make_error_code(std::errc::is_a_directory);
  } else if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    error_ = std::make_error_code(std::errc::not_supported);
  }
}

NewFile::~NewFile() {
  if (file_.valid() && !committed_) ::unlink(temporary_.c_str());
}

void NewFile::write(std::string_view text) {
  while (!error_ && !text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = last_error();
    }
  }
}

std::error_code NewFile::commit() {
  if (!error_ && ::rename(temporary_.c_str(), target_.c_str()) != 0) error_ = last_error();
  committed_ = !error_;
  return error_;
}

}  // namespace h5feed
