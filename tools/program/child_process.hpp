// SPDX-License-Identifier: Apache-2.0
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
  int signal = 0;          ///< signal that ended it; 0 if it exited
  bool timed_out = false;  ///< it was killed because its time limit was exceeded
  std::string output;
};

/// Runs /proc/self/exe with `arguments` and returns when it has ended, with its stdout; its stderr is
/// inherited. Calls `tick` at least ten times a second. Blocks. Throws Error if the process cannot be
/// started; Interrupted after ending the child with SIGTERM.
ChildResult run_self(const std::vector<std::string>& arguments, const std::function<void()>& tick);

/// Exit code reported if no program of that name exists.
inline constexpr int kNoSuchProgram = 127;

/// Runs the program at a path, or in PATH if `program` is a bare name, and returns when it has ended, with
/// its stdout; its stderr is inherited, or dropped with `quiet`. It leads its own process group; the whole
/// group is killed (SIGKILL) when `limit` has passed or the work is interrupted. Calls `tick` at least ten
/// times a second. Blocks. Throws Error if the process cannot be started, and Interrupted.
ChildResult run_program(const std::string& program, const std::vector<std::string>& arguments,
                        std::chrono::nanoseconds limit, const std::function<void()>& tick,
                        bool quiet = false);

/// Call first in a child of `run_self`: makes the kernel kill it when its parent ends. Does not return if
/// that has ended before.
void follow_parent();

}  // namespace h5feed::cli
