#include "support/run_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>

namespace h5feed::test {
namespace {

// Appends what can be read; false and a closed descriptor at the end.
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

}  // namespace

Program::Program(const std::filesystem::path& directory, const std::vector<std::string>& arguments) {
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
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ == 0) {
    // A test runner may ignore signals, and the program would respect that.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    if (::dup2(out[1], STDOUT_FILENO) < 0 || ::dup2(err[1], STDERR_FILENO) < 0 ||
        ::chdir(directory.c_str()) != 0) {
      ::_exit(126);
    }
    // TBB is not instrumented: ThreadSanitizer does not see what orders the stages of a pipeline, and
    // leaves out the commands that write by one.
    const bool pipeline =
        !arguments.empty() &&
        (arguments.front() == "generate" || arguments.front() == "pack" || arguments.front() == "repack");
    if (pipeline) ::setenv("TSAN_OPTIONS", "report_bugs=0", 1);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

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
  if (::poll(ready.data(), ready.size(), -1) < 0) return errno == EINTR;
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

ProgramResult run_program(const std::filesystem::path& directory, const std::vector<std::string>& arguments) {
  return Program(directory, arguments).wait();
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
