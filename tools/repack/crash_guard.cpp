// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/crash_guard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/clock.hpp"
#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

constexpr int kPassOnMilliseconds = 100;

[[noreturn]] void fail_to_start(int code) {
  throw Error(
      fmt::format("the process that does the work cannot be started ({}); check process and memory limits",
                  std::strerror(code)));
}

// Waits until the child has ended, whose end of the pipe is then closed. The first signal is marked as one
// that is passed on, since a terminal sends it to the child as well; each after it is meant to end the child
// at once. Returns the first one if the child did not obey in time and was killed, else 0.
int wait_for(pid_t child, int pipe) {
  constexpr std::chrono::seconds kObeys(2);
  int first = 0;
  bool killed = false;
  Clock::time_point passed_on;
  for (;;) {
    if (const int signal = take_noted_signal(); signal != 0) {
      first == 0 ? ::sigqueue(child, signal, {}) : ::kill(child, signal);
      if (first == 0) passed_on = Clock::now();
      if (first == 0) first = signal;
    }
    if (first != 0 && !killed && Clock::now() - passed_on > kObeys) killed = ::kill(child, SIGKILL) == 0;
    pollfd ended{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, kPassOnMilliseconds) > 0) return killed ? first : 0;
  }
}

}  // namespace

std::optional<int> go_on_in_child(const EndedChild& ended) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_to_start(errno);
  const FileDescriptor from(ends[0]);
  const int to = ends[1];         // Open in the child until that has ended
  std::signal(SIGCHLD, SIG_DFL);  // or nobody learns how the child ended
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  const int error = errno;
  if (child != 0) ::close(to);
  if (child < 0) fail_to_start(error);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    return std::nullopt;
  }
  const int disobeyed = wait_for(child, from.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  ended.clean_up();
  if (disobeyed != 0) throw Interrupted(disobeyed);
  for (const int interrupting : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (signal == interrupting) end_by_signal(signal);
  ended.crashed(signal);
  return EXIT_FAILURE;
}

}  // namespace h5feed::cli
