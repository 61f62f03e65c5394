// SPDX-License-Identifier: Apache-2.0
#include "tools/info/sheltered.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

/// No signal is delivered to this thread, nor to the processes that it starts.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_ = {};
};

[[noreturn]] void fail(int code) {
  throw Error(
      fmt::format("the process that changes the file cannot be started ({}); check process and "
                  "memory limits",
                  std::strerror(code)));
}

// A file that makes libhdf5 loop does not keep the copy, which no other signal ends.
void limit_cpu(std::chrono::seconds most_cpu) {
  rlimit limit{};
  ::getrlimit(RLIMIT_CPU, &limit);
  const rlim_t most = std::min(limit.rlim_max, static_cast<rlim_t>(most_cpu.count()));
  limit = {most, most};
  ::setrlimit(RLIMIT_CPU, &limit);
}

[[noreturn]] void change_and_exit(const std::function<void()>& change, std::chrono::seconds most_cpu,
                                  int report) {
  ::setsid();
  limit_cpu(most_cpu);
  std::string error;
  try {
    change();
    ::_exit(0);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  const bool told = ::write(report, error.data(), error.size()) == static_cast<ssize_t>(error.size());
  ::_exit(told ? 1 : 2);
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 1024> part;
  while (true) {
    const ssize_t bytes = ::read(from, part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace

void run_sheltered(const std::filesystem::path& file, const std::function<void()>& change,
                   std::chrono::seconds most_cpu) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno);
  const FileDescriptor from(ends[0]);
  FileDescriptor to(ends[1]);
  const pid_t pid = [&] {
    const SignalsBlocked blocked;
    const pid_t started = ::fork();
    if (started == 0) change_and_exit(change, most_cpu, to.get());
    return started;
  }();
  if (pid < 0) fail(errno);
  to.reset();
  const std::string error = read_all(from.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (!error.empty()) throw FileError(error);
  throw FileError(fmt::format(
      "{}: the process that changed it ended before it was done ({}); it may be damaged: check it, and "
      "restore it from a good copy if it is",
      file.string(), WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status)) : "no message"));
}

}  // namespace h5feed::cli
