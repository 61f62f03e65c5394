// SPDX-License-Identifier: Apache-2.0
#include "support/programs/run_program.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace h5feed::test {
namespace {

// Appends readable bytes to `text`; at the end, closes the descriptor and returns false.
bool drain(int& fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) {
    ::close(fd);
    fd = -1;
    return false;
  }
  text.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

// Runs in the child, before it executes the program.
bool confine(const RunLimits& limits) {
  if (limits.file_bytes) {
    const rlimit most = {*limits.file_bytes, *limits.file_bytes};
    if (::setrlimit(RLIMIT_FSIZE, &most) != 0) return false;
  }
  if (limits.obey_modes && ::geteuid() == 0) {
    // A program of root does not get capabilities outside the bounding set (capabilities(7)).
    for (const int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
      if (::prctl(PR_CAPBSET_DROP, capability) != 0) return false;
    }
  }
  return true;
}

}  // namespace

Program::Program(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
                 const RunLimits& limits) {
  std::vector<std::string> words = {H5FEED_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  std::fflush(nullptr);  // or the copy prints it once more
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ == 0) {
    // A test runner may ignore signals, and the program would inherit that.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    const int printed = limits.full_output ? ::open("/dev/full", O_WRONLY | O_CLOEXEC) : out[1];
    if (::dup2(printed, STDOUT_FILENO) < 0 || ::dup2(err[1], STDERR_FILENO) < 0 ||
        ::chdir(directory.c_str()) != 0 || !confine(limits)) {
      ::_exit(126);
    }
    if (limits.main != nullptr) {
      for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
      std::exit(limits.main(static_cast<int>(words.size()), argv.data()));
    }
    // TBB is not instrumented: ThreadSanitizer does not see the synchronization between pipeline stages, so
    // it does not report commands that write through a pipeline.
    const bool pipeline =
        !arguments.empty() &&
        (arguments.front() == "generate" || arguments.front() == "pack" || arguments.front() == "repack");
    if (pipeline) ::setenv("TSAN_OPTIONS", "report_bugs=0", 1);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  if (limits.timeout) deadline_ = std::chrono::steady_clock::now() + *limits.timeout;
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

bool can_obey_modes() { return ::geteuid() != 0 || ::prctl(PR_CAPBSET_READ, CAP_SETPCAP) == 1; }

Program::~Program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

bool Program::read_some() {
  std::array<pollfd, 2> ready = {{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  int wait_ms = -1;
  if (deadline_) {
    using std::chrono::milliseconds;
    const auto left = *deadline_ - std::chrono::steady_clock::now();
    wait_ms = static_cast<int>(std::max(milliseconds(0), std::chrono::ceil<milliseconds>(left)).count());
  }
  const int found = ::poll(ready.data(), ready.size(), wait_ms);
  if (found < 0) return errno == EINTR;
  if (found == 0) {
    result_.timed_out = true;
    deadline_.reset();
    ::kill(pid_, SIGKILL);
    return false;
  }
  if (out_ >= 0 && ready[0].revents != 0) drain(out_, result_.out);
  if (err_ >= 0 && ready[1].revents != 0) drain(err_, result_.err);
  return out_ >= 0 || err_ >= 0;
}

void Program::wait_for_stderr_line() {
  while (result_.err.find('\n') == std::string::npos) {
    if (!read_some()) throw std::runtime_error("the program ended before it said anything");
  }
}

void Program::send(int signal) { ::kill(pid_, signal); }

ProgramResult Program::wait() {
  while ((out_ >= 0 || err_ >= 0) && read_some()) {
  }
  for (int* const fd : {&out_, &err_}) {
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
  }
  int status = 0;
  rusage usage{};
  while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  result_.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
  return result_;
}

ProgramResult run_program(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
                          const RunLimits& limits) {
  return Program(directory, arguments, limits).wait();
}

std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace h5feed::test
