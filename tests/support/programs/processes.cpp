// SPDX-License-Identifier: Apache-2.0
#include "support/programs/processes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "support/files/file_text.hpp"

namespace h5feed::test {
namespace {

std::filesystem::path next_output(const std::filesystem::path& directory) {
  static std::atomic<int> number = 0;
  return directory / ("output-" + std::to_string(number++) + ".txt");
}

}  // namespace

Process::Process(const std::filesystem::path& directory, std::vector<std::string> words,
                 const std::map<std::string, std::string>& environment)
    : output_(next_output(directory)) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ > 0) return;
  const int output = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (output < 0 || ::dup2(output, STDOUT_FILENO) < 0 || ::dup2(output, STDERR_FILENO) < 0 ||
      ::chdir(directory.c_str()) != 0) {
    ::_exit(126);
  }
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::execv(argv.front(), argv.data());
  ::_exit(127);
}

Process::~Process() {
  if (pid_ <= 0) return;
  kill();
  wait();
}

bool Process::running() {
  if (pid_ <= 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  keep_end(status);
  return false;
}

void Process::keep_end(int status) {
  pid_ = -1;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void Process::wait_for(const std::string& text) {
  // Polls: nothing signals that the file has grown.
  while (output().find(text) == std::string::npos && running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void Process::send(int signal) {
  if (pid_ > 0) ::kill(pid_, signal);
}

void Process::kill() { send(SIGKILL); }

int Process::wait() {
  if (pid_ > 0) {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    keep_end(status);
  }
  return exit_code_;
}

std::string Process::output() const { return text_so_far(output_); }

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> lines = lines_of(text);
  std::erase_if(lines, [&](const std::string& line) { return line.find(part) == std::string::npos; });
  return lines;
}

}  // namespace h5feed::test
