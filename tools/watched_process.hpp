// A process whose run is watched: a command started for it, or one that runs already.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace h5feed::cli {

/// What a command used in its life, with all of its descendants that were waited for.
struct LifetimeUse {
  double cpu_s = 0;  ///< user and system time
  /// Most resident memory of any one process; 0 where the kernel does not tell it from this program's own.
  std::uint64_t largest_rss_bytes = 0;
  std::uint64_t read_bytes = 0;     ///< from storage
  std::uint64_t written_bytes = 0;  ///< to storage
};

/// For one thread. Neither kind is ended by the destructor.
class WatchedProcess {
 public:
  /// Starts a program at a path or in PATH, with our standard streams. Throws Error where that fails.
  static WatchedProcess start(const std::vector<std::string>& command);
  /// A process that runs already. Throws OptionError where there is none.
  static WatchedProcess running(pid_t pid);

  pid_t pid() const noexcept { return pid_; }
  /// When a command was started, or a running process was found.
  std::chrono::steady_clock::time_point begun() const noexcept { return begun_; }
  /// Whether it is over, without waiting. For a started command its exit code, 128 + the signal's number
  /// where one ended it, as shells have it; 0 for others, whose code nobody else is told.
  std::optional<int> exit_code();
  /// Set once `exit_code` has found a started command ended.
  const std::optional<LifetimeUse>& lifetime() const noexcept { return lifetime_; }
  void send(int signal) const noexcept;

 private:
  WatchedProcess(pid_t pid, bool ours, std::uint64_t started, std::uint64_t own_peak_bytes,
                 std::chrono::steady_clock::time_point begun) noexcept
      : pid_(pid), ours_(ours), started_(started), own_peak_bytes_(own_peak_bytes), begun_(begun) {}

  pid_t pid_;
  bool ours_;
  std::uint64_t started_;         // tells a process from a later one with its number
  std::uint64_t own_peak_bytes_;  // of this program, when it started the command
  std::chrono::steady_clock::time_point begun_;
  std::optional<int> exit_code_;
  std::optional<LifetimeUse> lifetime_;
};

/// Whether `pid` is `ancestor` or descends from it, as far as /proc tells.
bool descends_from(pid_t pid, pid_t ancestor);

/// The name of a process as `ps` prints it; empty where there is none.
std::string process_name(pid_t pid);

}  // namespace h5feed::cli
