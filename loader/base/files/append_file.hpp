// SPDX-License-Identifier: Apache-2.0
// Files to which several processes may append lines.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/files/file_descriptor.hpp"
#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

/// Throws OptionError that names `option` if `path` is a regular file with bytes that do not begin as JSON
/// objects do: a mistyped path must not damage a file of the user, such as the dataset itself.
inline void refuse_other_than_json(const std::filesystem::path& path, std::string_view option) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::ifstream file(path, std::ios::binary);
  const int first = file.get();
  if (first == std::ifstream::traits_type::eof() || first == '{') return;
  throw OptionError(
      fmt::format("{}: {} exists and is no JSON; name another file", spelled(option), path.string()));
}

/// Opens a file for reading and appending; creates it if it does not exist, and then sets `created`, which
/// may be null. Throws OptionError that names `option` if it cannot be written.
inline FileDescriptor open_to_append(const std::filesystem::path& path, std::string_view option,
                                     bool* created = nullptr) {
  const auto open = [&](int flags) {
    // O_NONBLOCK: opening a named pipe must not wait for its reader.
    return FileDescriptor(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags,
                                 S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  };
  FileDescriptor file = open(O_EXCL);
  if (created != nullptr) *created = file.valid();
  if (!file.valid()) file = open(0);
  if (file.valid()) return file;
  throw OptionError(
      fmt::format("{}: {} cannot be written: {}; name a file in a folder that exists and may be written",
                  spelled(option), path.string(), std::generic_category().message(errno)));
}

/// Returns whether a regular file that may be read ends in the middle of a line: a full disk has cut it.
inline bool ends_within_line(int file) noexcept {
  struct stat status = {};
  char last = '\n';
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
         ::pread(file, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

/// Appends `line` and a line break, as a new line. Returns false if that failed.
inline bool append_line(int file, const std::string& line) {
  const std::string text = (ends_within_line(file) ? "\n" : "") + line + '\n';
  // One call, so that lines of other processes stay whole.
  return ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace h5feed
