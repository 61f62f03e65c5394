// SPDX-License-Identifier: Apache-2.0
// The program as a function: arguments in, exit code out.
#pragma once

namespace h5feed::cli {

/// Exit codes: success, failure, wrong usage.
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

/// Runs the program: results go to stdout, progress and one line per error to stderr. Ignores SIGPIPE,
/// replaces closed standard streams by stand-ins whose reads and writes fail, and handles SIGINT, SIGTERM and
/// SIGHUP: if one of them ends the work, the process removes its unfinished output and ends by that signal,
/// so that shells see it. Returns the exit code.
int run(int argc, char** argv) noexcept;

/// Calls `run` and returns its exit code, for main(). If a libhdf5 call has failed on a damaged file, ends
/// the process here instead, without libhdf5's exit handlers, which could crash.
int run_to_end(int argc, char** argv) noexcept;

}  // namespace h5feed::cli
