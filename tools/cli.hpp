// The program as a function: arguments in, exit code out.
#pragma once

namespace h5feed::cli {

/// Exit codes: done; failed; wrong usage.
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

/// Runs the program: results on stdout, progress and one line per error on stderr. Ignores SIGPIPE, puts
/// stand-ins where standard streams are closed, and handles SIGINT, SIGTERM and SIGHUP: when one of them
/// ended the work, the process ends by that signal after its unfinished output was removed, so that
/// shells see it. Throws nothing.
int run(int argc, char** argv) noexcept;

/// The same as a whole program, to be returned by main(): where libhdf5 gave up on a damaged file, its exit
/// handlers could crash, and the process ends here without them.
int run_to_end(int argc, char** argv) noexcept;

}  // namespace h5feed::cli
