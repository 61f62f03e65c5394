// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/own_child.hpp"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace h5feed::test {
namespace {

// Starts a shell that runs `script`.
pid_t shell(const char* script) {
  std::array<char*, 4> arguments = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                                    const_cast<char*>(script), nullptr};
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawn(&pid, "/bin/sh", nullptr, nullptr, arguments.data(), environ), 0);
  return pid;
}

TEST(OwnChild, is_killed_and_waited_for) {
  const pid_t pid = shell("exec sleep 1000");
  OwnChild child(pid);
  EXPECT_TRUE(child.here());
  const auto ended = child.end();
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->by_signal);
  EXPECT_EQ(ended->number, SIGKILL);
  EXPECT_FALSE(child.here());
  EXPECT_FALSE(child.end());
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1) << "no zombie is left";
}

TEST(OwnChild, that_has_ended_by_itself_says_how) {
  const pid_t pid = shell("exit 7");
  OwnChild child(pid);
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  const auto ended = child.end();
  ASSERT_TRUE(ended);
  EXPECT_FALSE(ended->by_signal);
  EXPECT_EQ(ended->number, 7);
}

TEST(OwnChild, that_other_code_has_waited_for_is_gone) {
  const pid_t pid = shell("exit 0");
  OwnChild child(pid);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_TRUE(child.here()) << "nobody has told";
  EXPECT_FALSE(child.end());
  EXPECT_FALSE(child.here());
}

TEST(OwnChild, is_not_that_of_a_fork) {
  OwnChild child(shell("exit 0"));
  const pid_t fork = ::fork();
  if (fork == 0) ::_exit(child.here() || child.end() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(fork, &status, 0), fork);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(child.end());
}

}  // namespace
}  // namespace h5feed::test
