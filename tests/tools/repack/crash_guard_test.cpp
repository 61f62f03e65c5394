// SPDX-License-Identifier: Apache-2.0
// The process that waits for the one that repacks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "support/files/temp_dir.hpp"
#include "support/wait_until.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/repack/crash_guard.hpp"

namespace h5feed::test {
namespace {

// Runs `work` in a child of a process that waits, and returns the exit code of that process, to which
// `signal` is sent once the child has begun. The child leaves the file "left", which is removed where it did
// not end by itself.
int code_of_waiting(const TempDir& dir, int signal, const std::function<void()>& work,
                    void (*on_ended_child)(int) = SIG_DFL) {
  const pid_t waiting = ::fork();
  if (waiting == 0) {
    std::signal(SIGCHLD, on_ended_child);
    cli::catch_interrupts();
    const auto clean_up = [&] { std::filesystem::remove(dir / "left"); };
    try {
      if (cli::go_on_in_child({.clean_up = clean_up, .crashed = [](int by) { ::_exit(200 + by); }}))
        ::_exit(1);
      std::ofstream(dir / "left") << "x";
      std::ofstream(dir / "begun") << "x";
      work();
    } catch (const cli::Interrupted& interrupted) {
      ::_exit(100 + interrupted.signal());
    }
  }
  const bool begun = wait_until([&] { return std::filesystem::exists(dir / "begun"); });
  EXPECT_TRUE(begun);
  if (!begun) ::kill(waiting, SIGKILL);
  if (signal != 0) ::kill(waiting, signal);
  int status = 0;
  EXPECT_EQ(::waitpid(waiting, &status, 0), waiting);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// As libhdf5 while it copies an object of many GB.
TEST(RepackChild, that_obeys_no_signal_is_ended_and_what_it_left_is_removed) {
  const TempDir dir;
  EXPECT_EQ(code_of_waiting(dir, SIGTERM,
                            [] {
                              for (;;) ::pause();
                            }),
            100 + SIGTERM);
  EXPECT_FALSE(std::filesystem::exists(dir / "left"));
}

TEST(RepackChild, that_crashes_is_cleaned_up_after_also_where_children_are_ignored) {
  for (void (*on_ended_child)(int) : {SIG_DFL, SIG_IGN}) {
    const TempDir dir;
    EXPECT_EQ(code_of_waiting(
                  dir, 0, [] { std::abort(); }, on_ended_child),
              200 + SIGABRT);
    EXPECT_FALSE(std::filesystem::exists(dir / "left"));
  }
}

}  // namespace
}  // namespace h5feed::test
