// SPDX-License-Identifier: Apache-2.0
#include "tools/program/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.hpp"
#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

constexpr int kTickMilliseconds = 100;

// Owns the child: unless `wait` was called, ends and reaps it, with its process group if it leads one.
class Child {
 public:
  Child(pid_t pid, bool leads_group) noexcept : pid_(pid), leads_group_(leads_group) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    end();
    wait();
  }

  // A foreign program may ignore any signal but SIGKILL.
  void end() noexcept { leads_group_ ? ::kill(-pid_, SIGKILL) : ::kill(pid_, SIGTERM); }

  int wait() noexcept {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
  bool leads_group_;
};

[[noreturn]] void fail(int code) {
  throw Error(fmt::format("the measuring process cannot be started ({}); check process and memory limits",
                          std::strerror(code)));
}

// Returns -1 if there is no such program.
pid_t spawn(const std::string& program, const std::vector<std::string>& arguments, int output, bool own_group,
            bool quiet) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  if (const int code = ::posix_spawn_file_actions_init(&actions); code != 0) fail(code);
  posix_spawnattr_t attributes;
  if (const int code = ::posix_spawnattr_init(&attributes); code != 0) fail(code);
  pid_t pid = -1;
  int code = ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (code == 0 && quiet)
    code = ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // The group's number is the child's pid: posix_spawnattr_setpgroup's default, 0.
  if (code == 0 && own_group) code = ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  if (code == 0) code = ::posix_spawnp(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code == ENOENT) return -1;
  if (code != 0) fail(code);
  return pid;
}

ChildResult run(const std::string& program, const std::vector<std::string>& arguments,
                std::optional<std::chrono::nanoseconds> limit, const std::function<void()>& tick,
                bool quiet = false) {
  const Clock::time_point start = Clock::now();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno);
  const FileDescriptor from(ends[0]);
  FileDescriptor to(ends[1]);
  const pid_t pid = spawn(program, arguments, to.get(), limit.has_value(), quiet);
  if (pid < 0) return {.exit_code = kNoSuchProgram};
  Child child(pid, limit.has_value());
  to.reset();

  ChildResult result;
  std::array<char, 4096> buffer{};
  while (true) {
    check_interrupted();
    pollfd readable{.fd = from.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, kTickMilliseconds);
    tick();
    if (limit && Clock::now() - start >= *limit) {
      result.timed_out = true;
      child.end();
      break;
    }
    if (ready <= 0) continue;
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    result.output.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const int status = child.wait();
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  check_interrupted();
  return result;
}

}  // namespace

ChildResult run_program(const std::string& program, const std::vector<std::string>& arguments,
                        std::chrono::nanoseconds limit, const std::function<void()>& tick, bool quiet) {
  return run(program, arguments, limit, tick, quiet);
}

ChildResult run_self(const std::vector<std::string>& arguments, const std::function<void()>& tick) {
  return run("/proc/self/exe", arguments, std::nullopt, tick);
}

void follow_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A parent that was killed before left the output without a reader.
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  if (::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0) ::_exit(1);
}

}  // namespace h5feed::cli
