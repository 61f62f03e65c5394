// The built program, run as a process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace h5feed::test {

/// What a run is confined to.
struct RunLimits {
  std::optional<std::chrono::milliseconds> timeout = {};  ///< killed after it
  std::optional<std::uint64_t> file_bytes = {};           ///< no file grows beyond, as with ulimit -f
  /// Runs in place of the built program, in a copy of the test's process: for main() of a program that the
  /// test links, without the time to load and relocate it. The test may have no threads then.
  int (*main)(int argc, char** argv) = nullptr;
  bool full_output = false;  ///< stdout is a full device
  bool obey_modes = false;   ///< modes of files hold for root too; needs `can_obey_modes`, and no `main`
};

/// Whether the modes of files can be made to hold for a run: not for root in some containers.
bool can_obey_modes();

/// What a run left behind.
struct ProgramResult {
  int exit_code = -1;  ///< -1 when a signal ended it
  bool timed_out = false;
  int signal = 0;
  std::uint64_t peak_rss_bytes = 0;  ///< of the program, or of the test where that was larger at the start
  std::string out;
  std::string err;
};

/// A run that has started. For one thread.
class Program {
 public:
  /// Starts the program in `directory`. Throws std::runtime_error.
  Program(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
          const RunLimits& limits = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Kills it where it still runs.
  ~Program();

  /// Blocks until the program has written a whole line to stderr.
  void wait_for_stderr_line();
  void send(int signal);
  pid_t pid() const noexcept { return pid_; }
  /// Collects the rest and waits for the end, or kills the program where its time is over.
  ProgramResult wait();

 private:
  bool read_some();

  std::optional<std::chrono::steady_clock::time_point> deadline_;
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  ProgramResult result_;
};

/// Runs it to its end.
ProgramResult run_program(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
                          const RunLimits& limits = {});

/// Names of what lies in a directory, sorted.
std::vector<std::string> names_in(const std::filesystem::path& directory);

}  // namespace h5feed::test
