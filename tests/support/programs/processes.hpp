// SPDX-License-Identifier: Apache-2.0
// Runs several programs at once during a test.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace h5feed::test {

/// A running program; its stdout and stderr go to a file. For one thread.
class Process {
 public:
  /// Starts the program at the path `words[0]` in `directory`, with `environment` added to the test's. Throws
  /// std::runtime_error.
  Process(const std::filesystem::path& directory, std::vector<std::string> words,
          const std::map<std::string, std::string>& environment = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills the program if it still runs.
  ~Process();

  /// Blocks until the program has written a line that contains `text`, or has ended.
  void wait_for(const std::string& text);
  /// Sends `signal` to the program; nothing if it has ended and was waited for.
  void send(int signal);
  void kill();
  /// Blocks until the program ends. Returns its exit code, or 128 + the number of the signal that ended it,
  /// like a shell.
  int wait();
  /// Returns the program's output so far.
  std::string output() const;

 private:
  bool running();
  void keep_end(int status);

  const std::filesystem::path output_;
  pid_t pid_ = -1;
  int exit_code_ = -1;
};

/// Returns the lines of `text` that contain `part`.
std::vector<std::string> lines_with(const std::string& text, const std::string& part);

}  // namespace h5feed::test
