// SPDX-License-Identifier: Apache-2.0
#include "store/read/bad_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/files/append_file.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

constexpr std::string_view kAdvice = "; restore the file from a good copy";

std::string read_whole(int file) {
  std::string text;
  std::array<char, 64 * 1024> part = {};
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(file, part.data(), part.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    at += got;
  }
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.insert(text.substr(begin, end - begin));
  return lines;
}

std::string rows_text(const ChunkPlace& place) {
  if (place.end_row <= place.first_row + 1) return fmt::format("{}", place.first_row);
  return fmt::format("{}-{}", place.first_row, place.end_row - 1);
}

}  // namespace

BadChunk bad_chunk(const ChunkReader& reader, std::uint64_t chunk, std::string_view error) {
  const std::string described = on_one_line(reader.describe_chunk(chunk) + ' ');  // as in every message
  if (error.starts_with(described)) error.remove_prefix(described.size());
  if (error.ends_with(kAdvice)) error.remove_suffix(kAdvice.size());
  return {place_of(reader, chunk), std::string(error)};
}

std::string bad_list_line(const BadChunk& chunk) {
  const ChunkPlace& place = chunk.place;
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::absolute(place.file, unknown).lexically_normal();
  const std::array<std::string, 7> columns = {unknown ? place.file : whole.string(),
                                              place.path,
                                              fmt::format("{}", fmt::join(place.coordinates, ",")),
                                              place.address ? fmt::format("{}", *place.address) : "-",
                                              place.filters.empty() ? "-" : place.filters,
                                              rows_text(place),
                                              chunk.reason};
  std::string line;
  for (const std::string& column : columns) {
    if (!line.empty()) line += '\t';
    line += on_one_line(column);  // tabs are escaped
  }
  return line;
}

BadList::BadList(const std::filesystem::path& path, std::string_view option) : BadList(path, option, false) {}

BadList::BadList(const std::filesystem::path& path, std::string_view option, bool created)
    : path_(path), file_(open_to_append(path, option, &created)) {
  struct stat status = {};
  const bool regular = ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
  // Another process may be writing the header.
  const bool locked = regular && ::flock(file_.get(), LOCK_EX) == 0;
  const std::string text = regular ? read_whole(file_.get()) : std::string();
  errno = 0;
  const bool header = !text.empty() || (regular && append_line(file_.get(), std::string(kBadListHeader)));
  const int error = errno == 0 ? ENOSPC : errno;  // a short write sets none
  if (!header && created) ::unlink(path.c_str());
  if (locked) ::flock(file_.get(), LOCK_UN);
  if (!header && regular) {
    throw FileError(fmt::format("{}: {} cannot be written ({}); name a file where there is space",
                                spelled(option), path.string(), std::generic_category().message(error)));
  }
  if (!header) {
    throw OptionError(fmt::format("{}: {} cannot be written; name a regular file where there is space",
                                  spelled(option), path.string()));
  }
  if (!text.empty() && !text.starts_with(std::string(kBadListHeader) + '\n')) {
    throw OptionError(fmt::format("{}: {} exists and is not a list of bad chunks; name another file",
                                  spelled(option), path.string()));
  }
  lines_ = lines_of(text);
}

void BadList::add(const BadChunk& chunk) {
  std::string line = bad_list_line(chunk);
  bool failed_first = false;
  {
    const MutexLock lock(mutex_);
    const auto [at, is_new] = lines_.insert(std::move(line));
    if (is_new && !append_line(file_.get(), *at)) failed_first = !std::exchange(failed_, true);
  }
  if (failed_first) {
    log(LogLevel::warning,
        fmt::format("{}: a bad chunk cannot be added to the list; the log names it", path_.string()));
  }
}

}  // namespace h5feed
