// SPDX-License-Identifier: Apache-2.0
#include "tools/program/process_tree.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace h5feed::cli {
namespace {

struct StorageBytes {
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};

// Reads proc_pid_io(5); unset if the file is missing or belongs to another user.
std::optional<StorageBytes> storage_bytes_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/io", pid));
  StorageBytes bytes;
  int found = 0;
  std::string key;
  for (std::uint64_t value = 0; in >> key >> value;) {
    if (key == "read_bytes:") bytes.read = value, ++found;
    if (key == "write_bytes:") bytes.written = value, ++found;
  }
  return found == 2 ? std::optional(bytes) : std::nullopt;
}

std::map<pid_t, ProcessStat> all_processes() {
  std::map<pid_t, ProcessStat> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t pid = 0;
    const auto [rest, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (code != std::errc() || rest != name.data() + name.size()) continue;
    // A process may end after it was listed.
    if (const auto stat = process_stat(pid)) all.emplace(pid, *stat);
  }
  return all;
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  const std::string line((std::istreambuf_iterator<char>(in)), {});
  // The name is in parentheses and may hold any character.
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  ProcessStat stat{.pid = pid, .name = line.substr(open + 1, close - open - 1)};
  std::istringstream fields(line.substr(close + 1));
  const auto skip = [&](int count) {
    std::string skipped;
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  fields >> stat.state >> stat.parent;
  skip(9);  // pgrp, session, tty_nr, tpgid, flags, minflt, cminflt, majflt, cmajflt
  std::int64_t user = 0, system = 0, children_user = 0, children_system = 0, pages = 0;
  fields >> user >> system >> children_user >> children_system;
  skip(4);  // priority, nice, num_threads, itrealvalue
  fields >> stat.started;
  skip(1);  // vsize
  fields >> pages;
  if (!fields) return std::nullopt;
  static const auto kTicksPerSecond = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  stat.cpu_s = static_cast<double>(user + system + children_user + children_system) / kTicksPerSecond;
  stat.rss_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, pages)) * kPageBytes;
  return stat;
}

bool ProcessTree::is_member(const ProcessStat& process, const std::map<pid_t, ProcessStat>& all) const {
  const ProcessStat* at = &process;
  // Process numbers may be reused while processes are listed; parents can then seem to form a cycle.
  for (std::size_t depth = 0; depth < all.size(); ++depth) {
    if (at->pid == root_) return true;
    const auto known = members_.find(at->pid);
    if (known != members_.end() && known->second == at->started) return true;
    const auto parent = all.find(at->parent);
    if (parent == all.end()) return false;
    at = &parent->second;
  }
  return false;
}

TreeUse ProcessTree::read() {
  const std::map<pid_t, ProcessStat> all = all_processes();
  std::map<pid_t, std::uint64_t> members;
  TreeUse use;
  for (const auto& [pid, process] : all) {
    if (!is_member(process, all)) continue;
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

}  // namespace h5feed::cli
