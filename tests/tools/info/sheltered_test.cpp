// SPDX-License-Identifier: Apache-2.0
#include "tools/info/sheltered.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "h5feed/error.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(Sheltered, changes_files_and_passes_errors_on) {
  const TempDir dir;
  cli::run_sheltered("a.h5", [&] { std::ofstream(dir / "changed") << "x"; });
  EXPECT_TRUE(std::filesystem::exists(dir / "changed"));
  EXPECT_EQ(refusal_of<FileError>([] {
              cli::run_sheltered("a.h5", [] { throw std::runtime_error("the group is not there"); });
            }),
            "the group is not there");
}

TEST(Sheltered, is_reached_by_no_signal_to_its_group) {
  const TempDir dir;
  cli::run_sheltered("a.h5", [&] {
    ::raise(SIGTERM);
    ::kill(0, SIGINT);
    std::ofstream(dir / "changed") << "x";
  });
  EXPECT_TRUE(std::filesystem::exists(dir / "changed"));
}

TEST(Sheltered, names_the_file_of_a_change_that_crashes_or_never_ends) {
  const auto refused = [](const std::function<void()>& change) {
    return refusal_of<FileError>([&] { cli::run_sheltered("a.h5", change, std::chrono::seconds(1)); });
  };
  EXPECT_THAT(
      refused([] { ::raise(SIGKILL); }),
      HasSubstr("a.h5: the process that changed it ended before it was done (Killed); it may be damaged"));
  EXPECT_THAT(refused([] {
                for (volatile bool go_on = true; go_on;) {  // a compiler may leave out a loop without effect
                }
              }),
              HasSubstr("a.h5: the process that changed it ended before it was done (Killed)"));
}

}  // namespace
}  // namespace h5feed::test
