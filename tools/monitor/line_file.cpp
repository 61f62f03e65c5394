// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/line_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/write/staged_file.hpp"

namespace h5feed::cli {

LineFile::LineFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  out_.open(path, std::ios::trunc);
  if (!out_) throw FileError(fmt::format("{}: cannot be written; choose another place", path));
}

void LineFile::write(const Json& json) {
  if (!out_.is_open() || failed_) return;
  out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  if (out_) return;
  failed_ = true;
  say(fmt::format("{}: cannot be written any more; its last line may be cut", path_));
}

void check_file_place(const std::filesystem::path& path) {
  refuse_data(path);
  StagedFile(path, true).probe(1);
}

void check_place(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_other(path, ignored)) {
    check_file_place(path);
    return;
  }
  // O_NONBLOCK: opening a named pipe must not wait for its reader.
  const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  // A device that is full refuses even nothing; a pipe and a terminal take nothing for nothing.
  if (fd.valid() && ::write(fd.get(), "", 0) == 0) return;
  const int error = errno;
  throw FileError(error == ENXIO && std::filesystem::is_fifo(path, ignored)
                      ? fmt::format("{}: nobody reads from it; start its reader first", path.string())
                      : fmt::format("{}: cannot be written ({}); choose another place", path.string(),
                                    std::strerror(error)));
}

}  // namespace h5feed::cli
