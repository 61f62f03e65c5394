// SPDX-License-Identifier: Apache-2.0
// h5feed info on files with episodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "support/files/file_text.hpp"
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
      HasSubstr(
          "windows in 3 episodes:\n  C++:    h5feed::Dataset::open({.files = {\"frames.h5\"}, .data "
          "= \"/observation\", .target = \"/action\", .input_layout = h5feed::InputLayout::none, "
          ".episodes = h5feed::EpisodeOptions{.index = h5feed::EpisodeOptions::Index::ends, .table = "
          "\"/episode_ends\", .missing_before = 1, .missing_after = 3}, .window = {-1, 0}, "
          ".target_window = {0, 1, 2, 3}})\n  Python: h5feed.Dataset.open(\"frames.h5\", "
          "data=\"/observation\", target=\"/action\", input_layout=\"none\", episodes={\"index\": \"ends\", "
          "\"table\": \"/episode_ends\", \"missing_before\": 1, \"missing_after\": 3}, window=[-1, 0], "
          "target_window=[0, 1, 2, 3])\n"));
  EXPECT_THAT(run_program(dir.path(), {"info", "images.h5"}).out, testing::Not(HasSubstr("episodes")));
}

TEST(Info, reads_observations_that_have_a_row_more_as_a_field_and_none_that_follow_an_action) {
  const TempDir dir;
  {
    H5TestFile trajectories(dir / "traj.h5");
    H5TestFile demos(dir / "demo.hdf5");
    for (const char* const number : {"0", "1"}) {
      const std::string group = std::string("traj_") + number;
      trajectories.create({.path = group + "/actions", .file_type = H5T_IEEE_F32LE, .shape = {20, 7}});
      trajectories.create({.path = group + "/obs", .file_type = H5T_IEEE_F32LE, .shape = {21, 42}});
      trajectories.create({.path = group + "/env_states", .file_type = H5T_IEEE_F32LE, .shape = {21, 90}});
      const std::string demo = std::string("data/demo_") + number;
      demos.create({.path = demo + "/actions", .file_type = H5T_IEEE_F64LE, .shape = {20, 7}});
      demos.create({.path = demo + "/next_obs/image", .shape = {20, 8, 9, 3}});
      demos.create({.path = demo + "/obs/image", .shape = {20, 8, 9, 3}});
    }
  }
  EXPECT_THAT(
      run_program(dir.path(), {"info", "traj.h5"}).out,
      HasSubstr("windows in 2 episodes:\n  C++:    h5feed::Dataset::open({.files = {\"traj.h5\"}, .data = "
                "\"/traj_*/actions\", .input_layout = h5feed::InputLayout::none, .episodes = "
                "h5feed::EpisodeOptions{.missing_before = 1, .missing_after = 3}, .window = {0, 1, 2, 3}, "
                ".fields = {{.name = \"obs\", .data = \"/traj_*/obs\", .window = {-1, 0}}}})\n  Python: "
                "h5feed.Dataset.open(\"traj.h5\", data=\"/traj_*/actions\", input_layout=\"none\", "
                "episodes={\"missing_before\": 1, \"missing_after\": 3}, window=[0, 1, 2, 3], "
                "fields=[{\"name\": \"obs\", \"data\": \"/traj_*/obs\", \"window\": [-1, 0]}])\n"));
  EXPECT_THAT(run_program(dir.path(), {"info", "demo.hdf5"}).out,
              HasSubstr("data=\"/data/demo_*/obs/image\", target=\"/data/demo_*/actions\""));
}

TEST(Info, prints_the_lines_that_read_a_recording_a_scan_and_fields_over_time) {
  const TempDir dir;
  {
    H5TestFile recording(dir / "episode_0.hdf5");
    recording.create({.path = "action", .file_type = H5T_IEEE_F64LE, .shape = {30, 14}});
    recording.create({.path = "observations/qpos", .file_type = H5T_IEEE_F64LE, .shape = {30, 14}});
    recording.create({.path = "observations/images/top", .shape = {30, 24, 32, 3}});
    H5TestFile scan(dir / "scan.h5");
    scan.create({.path = "kspace", .file_type = H5T_IEEE_F32LE, .shape = {16, 20, 24}});
    scan.create({.path = "reconstruction_rss", .file_type = H5T_IEEE_F32LE, .shape = {16, 20, 20}});
    scan.create({.path = "mask", .file_type = H5T_IEEE_F32LE, .shape = {24}});
    H5TestFile year(dir / "year.h5");
    year.create(
        {.path = "fields", .file_type = H5T_IEEE_F32LE, .shape = {40, 5, 16, 32}, .chunk = {1, 5, 16, 32}});
  }
  EXPECT_THAT(run_program(dir.path(), {"info", "episode_0.hdf5"}).out,
              HasSubstr("data=\"/observations/images/top\", target=\"/action\", input_layout=\"nhwc\", "
                        "episodes={\"anchors\": \"one_random\", \"missing_after\": -1, \"fill\": \"zero\"}, "
                        "target_window=[0, 1, 2, 3])\n"));
  const ProgramResult scan = run_program(dir.path(), {"info", "scan.h5", "--write-config", "scan.json"});
  EXPECT_THAT(scan.out,
              HasSubstr("data=\"/kspace\", target=\"/reconstruction_rss\", input_layout=\"none\", "
                        "episodes={\"missing_before\": 1, \"missing_after\": 1}, window=[-1, 0, 1], "
                        "fields=[{\"name\": \"mask\", \"per\": \"file\"}])\n"));
  EXPECT_THAT(text_of(dir / "scan.json"), HasSubstr("\"missing_after\": 1"));
  EXPECT_THAT(run_program(dir.path(), {"info", "year.h5"}).out,
              HasSubstr("data=\"/fields\", target=\"/fields\", input_layout=\"nchw\", window=[-1, 0], "
                        "target_window=[1])\n"));
}

}  // namespace
}  // namespace h5feed::test
