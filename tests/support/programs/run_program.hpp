// SPDX-License-Identifier: Apache-2.0
// Runs the built program as a process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace h5feed::test {

/// Limits of a run.
struct RunLimits {
  std::optional<std::chrono::milliseconds> timeout = {};  ///< kill the program after this time
  std::optional<std::uint64_t> file_bytes = {};           ///< limit of file size, as set by ulimit -f
  /// Runs this function in a fork of the test's process instead of the built program, to save the time to
  /// load and relocate it: main() of a program that the test links. The test must not have other threads.
  int (*main)(int argc, char** argv) = nullptr;
  bool full_output = false;  ///< stdout is a full device
  bool obey_modes = false;   ///< file modes apply to root too; needs `can_obey_modes`, excludes `main`
};

/// Returns whether `RunLimits::obey_modes` is possible; it is not for root in some containers.
bool can_obey_modes();

/// Result of a run.
struct ProgramResult {
  int exit_code = -1;  ///< -1 if a signal ended it
  bool timed_out = false;
  int signal = 0;
  /// Peak memory of the program, or of the test if that was larger at the start.
  std::uint64_t peak_rss_bytes = 0;
  std::string out;
  std::string err;
};

/// A running program. For one thread.
class Program {
 public:
  /// Starts the program in `directory`. Throws std::runtime_error.
  Program(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
          const RunLimits& limits = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Kills the program if it still runs.
  ~Program();

  /// Blocks until the program has written a whole line to stderr.
  void wait_for_stderr_line();
  /// Sends a signal to the program.
  void send(int signal);
  pid_t pid() const noexcept { return pid_; }
  /// Collects the remaining output and waits for the end; kills the program when its time is over.
  ProgramResult wait();

 private:
  bool read_some();

  std::optional<std::chrono::steady_clock::time_point> deadline_;
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  ProgramResult result_;
};

/// Runs the program to its end. Throws std::runtime_error.
ProgramResult run_program(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
                          const RunLimits& limits = {});

/// Returns the names of all entries of a directory, sorted.
std::vector<std::string> names_in(const std::filesystem::path& directory);

}  // namespace h5feed::test
