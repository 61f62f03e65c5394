// SPDX-License-Identifier: Apache-2.0
// Resource use of a process and its descendants: CPU, memory and storage, from /proc; texts of /proc and
// /sys, read and split into words at little cost, several times a second.
#pragma once

#include <sys/types.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace h5feed::cli {

/// Fields of proc_pid_stat(5) for one process.
struct ProcessStat {
  pid_t pid = 0;
  std::string name;
  char state = '?';
  pid_t parent = 0;
  double cpu_s = 0;           ///< user and system time, including children that ended and were waited for
  std::uint64_t started = 0;  ///< clock ticks since boot; distinguishes it from later processes with its pid
  std::uint64_t rss_bytes = 0;  ///< resident memory, shared pages included
};

/// Returns the stat of a process; empty if it does not exist.
std::optional<ProcessStat> process_stat(pid_t pid);

/// One reading of a process tree.
struct TreeUse {
  std::uint64_t processes = 0;  ///< living processes
  double cpu_s = 0;             ///< user and system time of all processes, ended ones included
  std::uint64_t rss_bytes = 0;  ///< of living processes; shared pages count for each process
  /// Bytes read from and written to storage, ended processes included. Unset if the kernel does not tell: it
  /// keeps no such counts, or the processes belong to another user.
  std::optional<std::uint64_t> read_bytes, written_bytes;
};

/// A process and its descendants. A descendant whose parent ended still belongs to the tree once it has been
/// seen. For one thread.
class ProcessTree {
 public:
  /// `started` is `ProcessStat::started` of `root`: a later process with its number is not taken for it.
  ProcessTree(pid_t root, std::uint64_t started) : root_(root), root_started_(started) {}

  /// Reads /proc and returns the tree's use. CPU time and storage bytes never decrease. Lists all processes,
  /// and reads those of the tree and the new ones; every 10 s, all: some milliseconds if there are hundreds.
  TreeUse read();
  /// Sends a signal to the processes of the last `read` that are still there; ignores errors.
  void send(int signal) const noexcept;

 private:
  bool is_member(const ProcessStat& process, const std::map<pid_t, ProcessStat>& all) const;
  std::map<pid_t, ProcessStat> candidates();

  const pid_t root_;
  const std::uint64_t root_started_;
  std::map<pid_t, ino_t> strangers_;  // the file in /proc of processes outside of the tree, by number
  Clock::time_point forgotten_ = Clock::now();
  std::map<pid_t, std::uint64_t> members_;  // start time by number
  TreeUse last_;
};

/// Returns the text of a file, at most its first `most` bytes; empty if it cannot be read.
std::string read_proc_text(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 20);

/// Cuts the first line off `text` and returns it, without its end; empty if there is none.
std::string_view next_line(std::string_view& text) noexcept;

/// Splits text at blanks and ends of lines. Borrows the text.
class Words {
 public:
  explicit Words(std::string_view text) noexcept : rest_(text) {}

  /// Returns the next word; empty if there is none.
  std::string_view next() noexcept;
  /// Passes over `count` words.
  void skip(int count) noexcept;
  /// Takes the next word as a number; unset if it is none.
  template <typename Number>
  std::optional<Number> number() noexcept {
    const std::string_view word = next();
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
  }

 private:
  std::string_view rest_;
};

}  // namespace h5feed::cli
