// Runs this program again, or another one, in a fresh process.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace h5feed::cli {

/// How a process ended.
struct ChildResult {
  int exit_code = 0;
  int signal = 0;          ///< what ended it; 0 when it exited
  bool timed_out = false;  ///< it was killed because its time was over
  std::string output;
};

/// Starts /proc/self/exe with `arguments`, collects its stdout and waits; its stderr is ours. Calls
/// `tick` about ten times a second. Throws Error where no process can be started, and Interrupted,
/// after ending the child.
ChildResult run_self(const std::vector<std::string>& arguments, const std::function<void()>& tick);

/// The exit code where there is no program of that name.
inline constexpr int kNoSuchProgram = 127;

/// As run_self, for the program at a path, or in PATH where `program` is a bare name. It gets a process group
/// of its own; all of that group is killed when `limit` is over, or when the work is interrupted.
ChildResult run_program(const std::string& program, const std::vector<std::string>& arguments,
                        std::chrono::nanoseconds limit, const std::function<void()>& tick);

/// For the child: end with the parent, and leave Ctrl-C to it.
void follow_parent();

}  // namespace h5feed::cli
