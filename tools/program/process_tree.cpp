// SPDX-License-Identifier: Apache-2.0
#include "tools/program/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/files/file_descriptor.hpp"

namespace h5feed::cli {
namespace {

// Time after which processes outside of the tree are looked at again: it bounds how long one is taken for
// another where a file system gives files of /proc the same number again.
constexpr std::chrono::seconds kForgotten(10);

struct StorageBytes {
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};

// Reads proc_pid_io(5); unset if the file is missing or belongs to another user.
std::optional<StorageBytes> storage_bytes_of(pid_t pid) {
  const std::string text = read_proc_text(fmt::format("/proc/{}/io", pid));
  Words words(text);
  StorageBytes bytes;
  int found = 0;
  for (std::string_view key = words.next(); !key.empty(); key = words.next()) {
    const auto value = words.number<std::uint64_t>();
    if (!value) break;
    if (key == "read_bytes:") bytes.read = *value, ++found;
    if (key == "write_bytes:") bytes.written = *value, ++found;
  }
  return found == 2 ? std::optional(bytes) : std::nullopt;
}

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

// Returns the number of the file of each process, by process. The kernel gives a process that reuses the
// number of another a new file.
std::map<pid_t, ino_t> listed_processes() {
  std::map<pid_t, ino_t> all;
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc"));
  if (!folder) return all;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    pid_t pid = 0;
    const auto [rest, error] = std::from_chars(static_cast<const char*>(entry->d_name), end, pid);
    if (error == std::errc() && rest == end) all.emplace_hint(all.end(), pid, entry->d_ino);
  }
  return all;
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t pid) {
  const std::string line = read_proc_text(fmt::format("/proc/{}/stat", pid));
  // The name is in parentheses and may hold any character.
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  ProcessStat stat{.pid = pid, .name = line.substr(open + 1, close - open - 1)};
  Words fields(std::string_view(line).substr(close + 1));
  const std::string_view state = fields.next();
  const auto parent = fields.number<pid_t>();
  fields.skip(9);  // pgrp, session, tty_nr, tpgid, flags, minflt, cminflt, majflt, cmajflt
  std::int64_t ticks = 0;
  for (int i = 0; i < 4; ++i) {  // user and system time, and those of children
    const auto count = fields.number<std::int64_t>();
    if (!count) return std::nullopt;
    ticks += *count;
  }
  fields.skip(4);  // priority, nice, num_threads, itrealvalue
  const auto started = fields.number<std::uint64_t>();
  fields.skip(1);  // vsize
  const auto pages = fields.number<std::int64_t>();
  if (state.empty() || !parent || !started || !pages) return std::nullopt;
  static const auto kTicksPerSecond = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  stat.state = state.front();
  stat.parent = *parent;
  stat.started = *started;
  stat.cpu_s = static_cast<double>(ticks) / kTicksPerSecond;
  stat.rss_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, *pages)) * kPageBytes;
  return stat;
}

// Returns the processes that may belong to the tree. One that did not belong to it never will, and is not
// read again: that takes most of the time where there are many.
std::map<pid_t, ProcessStat> ProcessTree::candidates() {
  if (const auto now = Clock::now(); now - forgotten_ > kForgotten) {
    strangers_.clear();
    forgotten_ = now;
  }
  std::map<pid_t, ProcessStat> all;
  std::map<pid_t, ino_t> strangers;
  for (const auto& [pid, file] : listed_processes()) {
    const auto stranger = strangers_.find(pid);
    if (stranger != strangers_.end() && stranger->second == file) {
      strangers.insert(strangers.end(), *stranger);
      continue;
    }
    // A process may end after it was listed.
    const auto stat = process_stat(pid);
    if (!stat) continue;
    all.emplace_hint(all.end(), pid, *stat);
    strangers.emplace_hint(strangers.end(), pid, file);
  }
  for (const auto& [pid, process] : all) {
    if (is_member(process, all)) strangers.erase(pid);
  }
  strangers_ = std::move(strangers);
  return all;
}

bool ProcessTree::is_member(const ProcessStat& process, const std::map<pid_t, ProcessStat>& all) const {
  const ProcessStat* at = &process;
  // Process numbers may be reused while processes are listed; parents can then seem to form a cycle.
  for (std::size_t depth = 0; depth < all.size(); ++depth) {
    if (at->pid == root_ && at->started == root_started_) return true;
    const auto known = members_.find(at->pid);
    if (known != members_.end() && known->second == at->started) return true;
    const auto parent = all.find(at->parent);
    if (parent == all.end()) return false;
    at = &parent->second;
  }
  return false;
}

TreeUse ProcessTree::read() {
  const std::map<pid_t, ProcessStat> all = candidates();
  std::map<pid_t, std::uint64_t> members;
  TreeUse use;
  for (const auto& [pid, process] : all) {
    if (strangers_.contains(pid)) continue;
    members.emplace(pid, process.started);
    use.cpu_s += process.cpu_s;
    if (process.state == 'Z' || process.state == 'X') continue;
    ++use.processes;
    use.rss_bytes += process.rss_bytes;
    if (const auto bytes = storage_bytes_of(pid)) {
      use.read_bytes = use.read_bytes.value_or(0) + bytes->read;
      use.written_bytes = use.written_bytes.value_or(0) + bytes->written;
    }
  }
  // The use of an ended process passes to the parent that waits for it. Until then, or if no process of the
  // tree waits for it, it is missing here.
  use.cpu_s = std::max(use.cpu_s, last_.cpu_s);
  // An empty optional compares less than any value.
  use.read_bytes = std::max(use.read_bytes, last_.read_bytes);
  use.written_bytes = std::max(use.written_bytes, last_.written_bytes);
  members_ = std::move(members);
  last_ = use;
  return use;
}

void ProcessTree::send(int signal) const noexcept {
  for (const auto& [pid, started] : members_) {
    const auto stat = process_stat(pid);
    if (stat && stat->started == started) ::kill(pid, signal);
  }
}

std::string read_proc_text(const std::filesystem::path& path, std::size_t most) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 8192> part;
  while (file.valid() && text.size() < most) {
    const ssize_t bytes = ::read(file.get(), part.data(), std::min(part.size(), most - text.size()));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

std::string_view next_line(std::string_view& text) noexcept {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string_view Words::next() noexcept {
  constexpr std::string_view kBlanks = " \t\n";
  rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(kBlanks)));
  const std::string_view word = rest_.substr(0, rest_.find_first_of(kBlanks));
  rest_.remove_prefix(word.size());
  return word;
}

void Words::skip(int count) noexcept {
  for (int i = 0; i < count; ++i) next();
}

}  // namespace h5feed::cli
