// SPDX-License-Identifier: Apache-2.0
// Calls of the library that take long, in commands that are asked to end meanwhile.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/wait_until.hpp"

namespace h5feed::test {
namespace {

// Returns whether `process` runs the program by now, rather than still this one, and has opened `file`.
bool has_open(pid_t process, const std::filesystem::path& file) {
  std::error_code gone;
  const std::string place = "/proc/" + std::to_string(process);
  if (std::filesystem::read_symlink(place + "/exe", gone) != std::filesystem::canonical(H5FEED_PROGRAM))
    return false;
  const std::filesystem::path descriptors = place + "/fd";
  for (const auto& descriptor : std::filesystem::directory_iterator(descriptors, gone)) {
    if (std::filesystem::read_symlink(descriptor, gone) == file) return true;
  }
  return false;
}

TEST(LongCalls, of_staging_end_by_the_first_signal_while_another_process_copies) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "30"}).exit_code, 0);
  const std::filesystem::path folder = dir / ("stage/h5feed-" + std::to_string(::geteuid()));
  std::filesystem::create_directories(folder);
  ASSERT_EQ(::chmod(folder.c_str(), S_IRWXU), 0);
  const std::filesystem::path path = std::filesystem::canonical(folder) / "lock";
  const FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* const command : {"bench", "doctor"}) {
      SCOPED_TRACE(command);
      Program program(dir.path(), {command, "a.h5", "--stage-dir", "stage"});
      ASSERT_TRUE(wait_until([&] { return has_open(program.pid(), path); }));
      program.send(signal);
      const ProgramResult result = program.wait();
      EXPECT_FALSE(result.timed_out) << "it waits on";
      EXPECT_EQ(result.exit_code, signal == SIGINT ? 1 : -1) << result.err;
      EXPECT_EQ(result.signal, signal == SIGINT ? 0 : signal);
      EXPECT_THAT(result.err, testing::EndsWith("interrupted\n"));
    }
  }
}

}  // namespace
}  // namespace h5feed::test
