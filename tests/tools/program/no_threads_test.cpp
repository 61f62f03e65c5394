// SPDX-License-Identifier: Apache-2.0
// Every command, while one of its threads cannot be started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

// Preloads the failing calls into the programs that the test starts.
class NoThread {
 public:
  /// The start of a thread with this number fails, counted from 0, and then `refused` appears.
  NoThread(int number, const std::filesystem::path& refused) {
    ::setenv("H5FEED_TEST_REFUSED", refused.c_str(), 1);
    ::setenv("LD_PRELOAD", H5FEED_FAILING_CALLS, 1);
    ::setenv("H5FEED_TEST_NO_THREAD", std::to_string(number).c_str(), 1);
  }
  NoThread(const NoThread&) = delete;
  NoThread& operator=(const NoThread&) = delete;
  ~NoThread() {
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("H5FEED_TEST_NO_THREAD");
    ::unsetenv("H5FEED_TEST_REFUSED");
  }
};

struct Command {
  const char* name;
  std::vector<std::string> arguments;
  bool writes = false;  // b.h5
};

std::vector<Command> commands() {
  return {
      {"generate", {"generate", "b.h5", "--samples", "100", "--shape", "3,16,16", "--chunk", "8"}, true},
      {"check", {"check", "a.h5"}},
      {"info", {"info", "a.h5", "--stats", "--jobs", "2"}},
      {"repack", {"repack", "a.h5", "b.h5", "--chunk", "4", "--jobs", "2"}, true},
      {"bench", {"bench", "a.h5", "--num-workers", "2", "--time-budget", "0.05s"}},
      {"bench_cold", {"bench", "a.h5", "--cold", "--num-workers", "2", "--time-budget", "0.05s"}},
      {"tune", {"tune", "a.h5", "--num-workers", "2", "--time-budget", "5s"}},
      {"doctor", {"doctor", "a.h5", "--num-workers", "2", "--time-budget", "0.05s"}},
      {"monitor", {"monitor", "--listen", "127.0.0.1:0", "--", "true"}},
#ifdef H5FEED_TEST_IMAGES
      {"pack", {"pack", "b.h5", "--images", "imgs", "--size", "8x8"}, true},
#endif
  };
}

// Images of 2 x 2 pixels in two classes.
void write_images(const std::filesystem::path& folder) {
  for (const char* const name : {"cat", "dog"}) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / name / "0.ppm") << "P6 2 2 255\n" << std::string(12, 'x');
  }
}

// Returns the number of the thread that fails after `number`: each of the first eight, then one of twice the
// number, as `tune` starts hundreds; with H5FEED_TEST_THREADS=all each one.
int next_thread(int number) {
  constexpr int kEach = 8;
  const char* const wanted = std::getenv("H5FEED_TEST_THREADS");
  const bool all = wanted != nullptr && std::string_view(wanted) == "all";
  return all || number < kEach ? number + 1 : 2 * number;
}

class NoThreadsOfProgram : public testing::TestWithParam<Command> {};

TEST_P(NoThreadsOfProgram, end_with_the_result_or_an_error_that_says_what_to_raise) {
  const Command& command = GetParam();
  const TempDir dir;
  ASSERT_EQ(
      run_program(dir.path(), {"generate", "a.h5", "--samples", "100", "--shape", "3,16,16", "--chunk", "8"})
          .exit_code,
      0);
  write_images(dir / "imgs");
  const RunLimits limits{.timeout = std::chrono::seconds(60)};
  const TempDir notes;
  // Until no process starts as many threads.
  for (int number = 0, without = 0; without == 0; number = next_thread(number)) {
    SCOPED_TRACE(number);
    std::filesystem::remove(dir / "b.h5");
    std::filesystem::remove(notes / "refused");
    const ProgramResult result = [&] {
      const NoThread failing(number, notes / "refused");
      return run_program(dir.path(), command.arguments, limits);
    }();
    ASSERT_FALSE(result.timed_out);
    ASSERT_EQ(result.signal, 0);
    without = std::filesystem::exists(notes / "refused") ? 0 : 1;
    ASSERT_FALSE(number == 0 && without == 1) << "the test fails no thread";
    if (result.exit_code == 0) {  // newer versions of oneTBB do without
      if (command.writes) {
        const ProgramResult checked = run_program(dir.path(), {"check", "b.h5"}, limits);
        EXPECT_EQ(checked.exit_code, 0) << checked.err;
      }
      continue;
    }
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err,
                HasSubstr("the system starts no more threads (Resource temporarily unavailable); raise "));
    EXPECT_THAT(names_in(dir.path()), testing::ElementsAre("a.h5", "imgs")) << "nothing is left behind";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, NoThreadsOfProgram, testing::ValuesIn(commands()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace h5feed::test
