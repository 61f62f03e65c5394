#include "tools/watched_process.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

// What proc_pid_stat(5) says of a process.
struct ProcessStat {
  std::string name;
  char state = '?';
  pid_t parent = 0;
  std::uint64_t started = 0;  // clock ticks since boot
};

std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  const std::string line((std::istreambuf_iterator<char>(in)), {});
  // The name is in parentheses, and may hold any character.
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  ProcessStat stat{.name = line.substr(open + 1, close - open - 1)};
  std::istringstream fields(line.substr(close + 1));
  fields >> stat.state >> stat.parent;
  constexpr int kBetweenParentAndStart = 17;
  std::string skipped;
  for (int i = 0; i < kBetweenParentAndStart; ++i) fields >> skipped;
  fields >> stat.started;
  return fields ? std::optional(stat) : std::nullopt;
}

}  // namespace

WatchedProcess WatchedProcess::start(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // This program ignores signals that end others: of a closed pipe, and of a file that may not grow.
  sigset_t standard;
  ::sigemptyset(&standard);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaddset(&standard, signal);
  posix_spawnattr_t attributes;
  int code = ::posix_spawnattr_init(&attributes);
  pid_t pid = -1;
  if (code == 0) {
    ::posix_spawnattr_setsigdefault(&attributes, &standard);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    code = ::posix_spawnp(&pid, argv.front(), nullptr, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
  }
  if (code != 0) {
    throw Error(fmt::format("{} cannot be started ({}); check its name and PATH", command.front(),
                            std::strerror(code)));
  }
  return {pid, true, 0};
}

WatchedProcess WatchedProcess::running(pid_t pid) {
  const auto stat = stat_of(pid);
  if (!stat) throw OptionError(fmt::format("--pid {}: there is no such process", pid));
  return {pid, false, stat->started};
}

std::optional<int> WatchedProcess::exit_code() {
  if (exit_code_) return exit_code_;
  if (!ours_) {
    const auto stat = stat_of(pid_);
    const bool over = !stat || stat->started != started_ || stat->state == 'Z' || stat->state == 'X';
    if (over) exit_code_ = 0;
    return exit_code_;
  }
  int status = 0;
  pid_t found = 0;
  do {
    found = ::waitpid(pid_, &status, WNOHANG);
  } while (found < 0 && errno == EINTR);
  if (found == pid_) exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

void WatchedProcess::send(int signal) const noexcept { ::kill(pid_, signal); }

bool descends_from(pid_t pid, pid_t ancestor) {
  while (pid > 1 && pid != ancestor) {
    const auto stat = stat_of(pid);
    if (!stat) return false;
    pid = stat->parent;
  }
  return pid == ancestor;
}

std::string process_name(pid_t pid) {
  const auto stat = stat_of(pid);
  return stat ? stat->name : std::string();
}

}  // namespace h5feed::cli
