// SPDX-License-Identifier: Apache-2.0
// The example that puts images together from their tiles, as a user starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "support/files/image_tiles.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

struct Ran {
  int exit_code = -1;
  std::string out;  // of both streams
};

Ran run_example(const std::filesystem::path& file, const std::string& arguments) {
  std::string command = "'" H5FEED_TILES "' '";
  command += file.string() + "' --data images " + arguments + " 2>&1";
  Ran ran;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) ran.out += static_cast<char>(c);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.exit_code = WEXITSTATUS(status);
  return ran;
}

TEST_F(Tiles, are_put_together_again_by_the_example) {
  write("a.h5", make({2, 70, 90, 3}), {1, 16, 16, 3});
  struct Run {
    const char* arguments;
    const char* says;
  };
  for (const Run& run :
       {Run{"--size 16 --edges shift",
            "image 0: 70×90 put together from 30 tiles, every covered value equal, 0 "
            "pixels in no tile"},
        Run{"--size 20 --overlap 7 --edges pad", "put together from 35 tiles"},
        Run{"--size 20 --overlap 7 --edges shift --merge last --num-workers 0", "0 pixels in no tile"},
        Run{"--size 16 --edges drop", "from 20 tiles, every covered value equal, 1180 pixels in no tile"}}) {
    const auto& [exit_code, out] = run_example(dir_ / "a.h5", std::string("--images 2 ") + run.arguments);
    EXPECT_EQ(exit_code, 0) << out;
    EXPECT_THAT(out, HasSubstr(run.says));
    EXPECT_THAT(out, HasSubstr("image 1: 70×90"));
    EXPECT_THAT(out, HasSubstr("extra memory"));
  }
}

TEST_F(Tiles, of_volumes_that_differ_in_extent_are_put_together_by_the_example_with_weights) {
  write("a.h5", make({20, 30, 40}), {8, 8, 8});
  write("b.h5", make({17, 35, 16}), {5, 9, 16});
  const std::string files = "' '" + (dir_ / "b.h5").string();
  for (const char* const how : {"--edges shift --merge weighted", "--edges pad --merge average"}) {
    const auto& [exit_code, out] = run_example(
        (dir_ / "a.h5").string() + files,
        std::string("--one-image --input-layout NDHW --size 12 --depth 9 --overlap 4 --images 9 ") + how);
    EXPECT_EQ(exit_code, 0) << out;
    EXPECT_THAT(out, HasSubstr("image 0: 20×30×40 put together from 80 tiles, every covered value equal, 0 "
                               "pixels in no tile"));
    EXPECT_THAT(out, HasSubstr("image 1: 17×35×16 put together from 24 tiles, every covered value equal"));
  }
}

TEST_F(Tiles, that_the_example_cannot_make_are_refused_with_its_own_options) {
  write("a.h5", make({2, 40, 40, 3}));
  write("one.h5", make({40, 50, 3}));
  struct Refused {
    const char* file;
    const char* arguments;
    int exit_code;
    const char* says;
  };
  for (const Refused& refused : {Refused{"a.h5", "--size 16 --images -3", 2, "--images"},
                                 Refused{"a.h5", "--size 16 --images 0", 2, "--images"},
                                 Refused{"a.h5", "--size 16 --batch-size 0", 2, "--batch-size"},
                                 Refused{"a.h5", "--size 0", 2, "tiles: --size must be 1 to 2147483647"},
                                 Refused{"a.h5", "--size 16 --overlap 16", 2,
                                         "tiles: --overlap 16×16 must be smaller than --size 16×16"},
                                 Refused{"a.h5", "--size 50", 1, "use a smaller --size, or --edges pad"},
                                 Refused{"one.h5", "--size 16", 1, "add --one-image"}}) {
    const auto& [exit_code, out] = run_example(dir_ / refused.file, refused.arguments);
    EXPECT_EQ(exit_code, refused.exit_code) << out;
    EXPECT_THAT(out, HasSubstr(refused.says));
  }
}

}  // namespace
}  // namespace h5feed::test
