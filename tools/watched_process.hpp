// A process whose run is watched: a command started for it, or one that runs already.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace h5feed::cli {

/// For one thread. Neither kind is ended by the destructor.
class WatchedProcess {
 public:
  /// Starts a program at a path or in PATH, with our standard streams. Throws Error where that fails.
  static WatchedProcess start(const std::vector<std::string>& command);
  /// A process that runs already. Throws OptionError where there is none.
  static WatchedProcess running(pid_t pid);

  pid_t pid() const noexcept { return pid_; }
  /// Whether it is over, without waiting. For a started command its exit code, 128 + the signal's number
  /// where one ended it, as shells have it; 0 for others, whose code nobody else is told.
  std::optional<int> exit_code();
  void send(int signal) const noexcept;

 private:
  WatchedProcess(pid_t pid, bool ours, std::uint64_t started) noexcept
      : pid_(pid), ours_(ours), started_(started) {}

  pid_t pid_;
  bool ours_;
  std::uint64_t started_;  // tells a process from a later one with its number
  std::optional<int> exit_code_;
};

/// Whether `pid` is `ancestor` or descends from it, as far as /proc tells.
bool descends_from(pid_t pid, pid_t ancestor);

/// The name of a process as `ps` prints it; empty where there is none.
std::string process_name(pid_t pid);

}  // namespace h5feed::cli
