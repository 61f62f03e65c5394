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
    H5TestFile weather(dir / "weather.h5");
    weather.create({.path = "fields", .file_type = H5T_IEEE_F32LE, .shape = {40, 20, 181, 360}});
    H5TestFile scan(dir / "scan.h5");
    scan.create({.path = "kspace", .file_type = H5T_IEEE_F32LE, .shape = {10, 8, 9, 2}});
    scan.create({.path = "reconstruction_rss", .file_type = H5T_IEEE_F32LE, .shape = {10, 8, 9}});
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
                "data=\"/observation\", target=\"/action\", input_layout=\"none\", "
                "episodes={\"index\": \"ends\", \"table\": \"/episode_ends\", \"missing_before\": 1, "
                "\"missing_after\": 3}, window=[-1, 0], target_window=[0, 1, 2, 3])\n"));
  EXPECT_THAT(
      run_program(dir.path(), {"info", "weather.h5"}).out,
      HasSubstr("windows in a series of 40 states:\n  C++:    h5feed::Dataset::open({.files = "
                "{\"weather.h5\"}, .data = \"/fields\", .target = \"/fields\", .input_layout = "
                "h5feed::InputLayout::nchw, .episodes = h5feed::EpisodeOptions{.index = "
                "h5feed::EpisodeOptions::Index::series}, .window = {-1, 0}, .target_window = {1, 2, 3}})\n"));
  EXPECT_THAT(run_program(dir.path(), {"info", "scan.h5"}).out,
              HasSubstr("slices of a scan with their neighbours:\n  C++:    h5feed::Dataset::open({.files = "
                        "{\"scan.h5\"}, .data = \"/kspace\", .target = \"/reconstruction_rss\", "
                        ".input_layout = h5feed::InputLayout::none, .episodes = "
                        "h5feed::EpisodeOptions{.missing_before = 1, .missing_after = 1}, .window = {-1, 0, "
                        "1}})\n"));
  const std::string images = run_program(dir.path(), {"info", "images.h5"}).out;
  EXPECT_THAT(images, testing::Not(testing::AnyOf(HasSubstr("episodes"), HasSubstr("windows"))));
}

}  // namespace
}  // namespace h5feed::test
