// SPDX-License-Identifier: Apache-2.0
#include "tools/program/watched_process.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "h5feed/error.hpp"
#include "tools/program/process_tree.hpp"
#include "tools/program/resources.hpp"

namespace h5feed::cli {

WatchedProcess WatchedProcess::start(const std::vector<std::string>& command, bool only_stderr) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // This program ignores SIGPIPE (closed pipe) and SIGXFSZ (file-size limit); the command must get the
  // defaults.
  sigset_t standard;
  ::sigemptyset(&standard);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaddset(&standard, signal);
  const auto begun = Clock::now();
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  int code = ::posix_spawn_file_actions_init(&files);
  pid_t pid = -1;
  if (code == 0) {
    if (only_stderr) code = ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    if (code == 0) code = ::posix_spawnattr_init(&attributes);
    if (code == 0) {
      ::posix_spawnattr_setsigdefault(&attributes, &standard);
      ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
      code = ::posix_spawnp(&pid, argv.front(), &files, &attributes, argv.data(), environ);
      ::posix_spawnattr_destroy(&attributes);
    }
    ::posix_spawn_file_actions_destroy(&files);
  }
  if (code != 0) {
    throw Error(fmt::format("{} cannot be started ({}); check its name and PATH", command.front(),
                            std::strerror(code)));
  }
  // posix_spawn returns once the command is executed, so this peak covers what the kernel has counted for
  // both.
  const std::uint64_t own_peak_bytes = peak_rss_bytes();
  // Until it is waited for, it is listed even if it has ended.
  const auto stat = process_stat(pid);
  return {pid, true, stat ? stat->started : 0, own_peak_bytes, begun};
}

WatchedProcess WatchedProcess::running(pid_t pid) {
  const auto stat = process_stat(pid);
  if (!stat) throw OptionError(fmt::format("--pid {}: there is no such process", pid));
  return {pid, false, stat->started, 0, Clock::now()};
}

std::optional<int> WatchedProcess::exit_code() {
  if (exit_code_) return exit_code_;
  if (!ours_) {
    const auto stat = process_stat(pid_);
    const bool over = !stat || stat->started != started_ || stat->state == 'Z' || stat->state == 'X';
    if (over) exit_code_ = 0;
    return exit_code_;
  }
  int status = 0;
  pid_t found = 0;
  rusage usage{};
  do {
    found = ::wait4(pid_, &status, WNOHANG, &usage);
  } while (found < 0 && errno == EINTR);
  if (found != pid_) return exit_code_;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  constexpr std::uint64_t kBlockBytes = 512;  // unit of ru_inblock and ru_oublock, getrusage(2)
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  // Until the started process executes the command, it shares its starter's memory, and the kernel includes
  // that in ru_maxrss. The kernel's page counters are per CPU and summed only now and then, hence the slack.
  const std::uint64_t largest = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  const std::uint64_t shared_at_most = own_peak_bytes_ + own_peak_bytes_ / 16 + (std::uint64_t{1} << 20);
  lifetime_ = {.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
               .largest_rss_bytes = largest > shared_at_most ? largest : 0,
               .read_bytes = static_cast<std::uint64_t>(usage.ru_inblock) * kBlockBytes,
               .written_bytes = static_cast<std::uint64_t>(usage.ru_oublock) * kBlockBytes};
  return exit_code_;
}

void WatchedProcess::send(int signal) const noexcept {
  if (!exit_code_) ::kill(pid_, signal);
}

bool descends_from(pid_t pid, pid_t ancestor) {
  while (pid > 1 && pid != ancestor) {
    const auto stat = process_stat(pid);
    if (!stat) return false;
    pid = stat->parent;
  }
  return pid == ancestor;
}

std::string process_name(pid_t pid) {
  const auto stat = process_stat(pid);
  return stat ? stat->name : std::string();
}

}  // namespace h5feed::cli
