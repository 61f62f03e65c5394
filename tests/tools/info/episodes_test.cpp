// SPDX-License-Identifier: Apache-2.0
// h5feed info on files with episodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(Info, prints_the_lines_that_read_windows_of_episodes) {
  const TempDir dir;
  {
    H5TestFile demos(dir / "demo.hdf5");
    for (const char* const demo : {"data/demo_0", "data/demo_1", "data/demo_10"}) {
      demos.create({.path = std::string(demo) + "/actions", .file_type = H5T_IEEE_F64LE, .shape = {20, 7}});
      demos.create(
          {.path = std::string(demo) + "/obs/eef_pos", .file_type = H5T_IEEE_F64LE, .shape = {20, 3}});
      demos.create({.path = std::string(demo) + "/obs/image", .shape = {20, 8, 9, 3}});
    }
    H5TestFile frames(dir / "frames.h5");
    frames.create({.path = "observation", .file_type = H5T_IEEE_F32LE, .shape = {30, 12}});
    frames.create({.path = "action", .file_type = H5T_IEEE_F32LE, .shape = {30, 7}});
    frames.create({.path = "episode_ends", .file_type = H5T_STD_I64LE, .shape = {3}});
    const std::vector<std::int64_t> ends = {10, 25, 30};
    frames.write("episode_ends", std::as_bytes(std::span(ends)));
    H5TestFile images(dir / "images.h5");
    images.create({.path = "photos", .shape = {200, 64, 64}});
  }
  const std::string demo = run_program(dir.path(), {"info", "demo.hdf5"}).out;
  EXPECT_THAT(demo, HasSubstr("windows in 3 episodes:\n"));
  EXPECT_THAT(demo,
              HasSubstr("  C++:    h5feed::Dataset::open({.files = {\"demo.hdf5\"}, .data = "
                        "\"/data/demo_*/obs/image\", .target = \"/data/demo_*/actions\", .input_layout = "
                        "h5feed::InputLayout::nhwc, .episodes = h5feed::EpisodeOptions{.missing_before = 1, "
                        ".missing_after = 3}, .window = {-1, 0}, .target_window = {0, 1, 2, 3}})\n"));
  EXPECT_THAT(
      run_program(dir.path(), {"info", "frames.h5"}).out,
      HasSubstr("windows in 3 episodes:\n  C++:    h5feed::Dataset::open({.files = {\"frames.h5\"}, .data "
                "= \"/observation\", .target = \"/action\", .input_layout = h5feed::InputLayout::none, "
                ".episodes = h5feed::EpisodeOptions{.index = h5feed::EpisodeOptions::Index::ends, .table = "
                "\"/episode_ends\", .missing_before = 1, .missing_after = 3}, .window = {-1, 0}, "
                ".target_window = {0, 1, 2, 3}})\n  Python: h5feed.Dataset.open(\"frames.h5\", "
                "data=\"/observation\", target=\"/action\", input_layout=\"none\", window=[-1, 0], "
                "target_window=[0, 1, 2, 3], episodes={\"index\": \"ends\", \"table\": "
                "\"/episode_ends\", \"missing_before\": 1, \"missing_after\": 3})\n"));
  EXPECT_THAT(run_program(dir.path(), {"info", "images.h5"}).out, testing::Not(HasSubstr("episodes")));
}

}  // namespace
}  // namespace h5feed::test
