// SPDX-License-Identifier: Apache-2.0
// A watched process: a command started for the purpose, or one that is already running.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace h5feed::cli {

/// Resources that a command used in its life, including all of its descendants that were waited for.
struct LifetimeUse {
  double cpu_s = 0;  ///< user and system time
  /// Peak resident memory of any one process; 0 if the kernel does not distinguish it from this program's
  /// own.
  std::uint64_t largest_rss_bytes = 0;
  std::uint64_t read_bytes = 0;     ///< bytes read from storage
  std::uint64_t written_bytes = 0;  ///< bytes written to storage
};

/// A watched process. The destructor ends neither kind. For one thread.
class WatchedProcess {
 public:
  /// Starts a program at a path or in PATH, with this program's standard streams; with `only_stderr` its
  /// stdout too is this program's stderr. Throws Error if that fails.
  static WatchedProcess start(const std::vector<std::string>& command, bool only_stderr = false);
  /// Watches a process that is already running. Throws OptionError if it does not exist.
  static WatchedProcess running(pid_t pid);

  pid_t pid() const noexcept { return pid_; }
  /// Returns `ProcessStat::started` of the process; 0 if /proc does not tell.
  std::uint64_t started() const noexcept { return started_; }
  /// Returns the time when the command was started, or the running process was found.
  Clock::time_point begun() const noexcept { return begun_; }
  /// Returns the exit code once the process has ended, else nothing; does not block. For a started command,
  /// 128 + the signal's number if a signal ended it, as in shells. 0 for other processes, whose code only
  /// their parent learns.
  std::optional<int> exit_code();
  /// Resources used by a started command; set once `exit_code` has found it ended.
  const std::optional<LifetimeUse>& lifetime() const noexcept { return lifetime_; }
  /// Sends a signal to the process, unless `exit_code` has found it ended: its number may be that of another
  /// then. Ignores errors.
  void send(int signal) const noexcept;

 private:
  WatchedProcess(pid_t pid, bool ours, std::uint64_t started, std::uint64_t own_peak_bytes,
                 Clock::time_point begun) noexcept
      : pid_(pid), ours_(ours), started_(started), own_peak_bytes_(own_peak_bytes), begun_(begun) {}

  pid_t pid_;
  bool ours_;
  std::uint64_t started_;         // distinguishes the process from a later one with the same pid
  std::uint64_t own_peak_bytes_;  // peak memory of this program once it had started the command
  Clock::time_point begun_;
  std::optional<int> exit_code_;
  std::optional<LifetimeUse> lifetime_;
};

/// Returns whether `pid` is `ancestor` or descends from it, as far as /proc tells.
bool descends_from(pid_t pid, pid_t ancestor);

/// Returns the name of a process as `ps` prints it; empty if it does not exist.
std::string process_name(pid_t pid);

}  // namespace h5feed::cli
