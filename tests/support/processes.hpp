// Programs beside a test, several at once.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace h5feed::test {

/// One program that has started; its output, of both kinds, goes to a file. For one thread.
class Process {
 public:
  /// Starts `words[0]` in `directory` with `environment` added to the test's. Throws std::runtime_error.
  Process(const std::filesystem::path& directory, std::vector<std::string> words,
          const std::map<std::string, std::string>& environment = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills it where it still runs.
  ~Process();

  /// Blocks until the program has written a line that contains `text`, or has ended.
  void wait_for(const std::string& text);
  void kill();
  /// Blocks until the end: the exit code, or -1 where a signal ended it.
  int wait();
  /// What it has written so far.
  std::string output() const;

 private:
  bool running();

  const std::filesystem::path output_;
  pid_t pid_ = -1;
  int exit_code_ = -1;
};

/// Lines of `text` that contain `part`.
std::vector<std::string> lines_with(const std::string& text, const std::string& part);

}  // namespace h5feed::test
