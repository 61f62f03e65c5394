// SPDX-License-Identifier: Apache-2.0
// Public datasets that keep a group or a file for each episode, client, volume or sample.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/compatibility.hpp"

namespace h5feed::test {
namespace {

TEST_F(Compatibility, reads_fastdepth_nyu_with_a_file_for_each_frame) {
  std::vector<Place> rgb;
  std::vector<Place> depth;
  for (int i = 1; i <= 12; ++i) {
    const std::string name = "000" + std::to_string(i) + ".h5";
    H5TestFile file(dir_ / name);
    add(file, {.path = "rgb", .shape = {3, 12, 16}});
    add(file, {.path = "depth", .file_type = H5T_IEEE_F32LE, .shape = {12, 16}});
    rgb.push_back({name, "rgb"});
    depth.push_back({name, "depth"});
  }
  expect_equal({.files = {"*.h5"}, .data = "rgb", .target = "depth", .sample = SampleUnit::dataset},
               reference(rgb), reference(depth));
}

TEST_F(Compatibility, reads_robomimic_demonstrations) {
  std::vector<Place> images;
  std::vector<Place> actions;
  {
    H5TestFile file(dir_ / "image.hdf5");
    group(file, "data");
    group(file, "mask");
    for (int i = 0; i < 11; ++i) {
      const std::string demo = "data/demo_" + std::to_string(i);
      for (const std::string& name : {demo, demo + "/obs", demo + "/next_obs"}) group(file, name);
      const auto length = static_cast<std::uint64_t>(5 + i * 7 % 9);
      add(file, {.path = demo + "/obs/agentview_image",
                 .shape = {length, 12, 12, 3},
                 .chunk = {3, 6, 12, 2},
                 .filters = gzip()});
      add(file, {.path = demo + "/actions", .file_type = H5T_IEEE_F64LE, .shape = {length, 7}});
      images.push_back({"image.hdf5", demo + "/obs/agentview_image"});
      actions.push_back({"image.hdf5", demo + "/actions"});
    }
  }
  expect_equal(
      {.files = {"image.hdf5"}, .data = "data/demo_*/obs/agentview_image", .target = "data/demo_*/actions"},
      reference(images), reference(actions));
}

TEST_F(Compatibility, reads_maniskill_trajectories) {
  std::vector<Place> depth;
  std::vector<Place> success;
  {
    H5TestFile file(dir_ / "trajectory.h5");
    for (int i = 0; i < 12; ++i) {
      const std::string trajectory = "traj_" + std::to_string(i);
      for (const std::string& name : {trajectory, trajectory + "/obs", trajectory + "/obs/sensor_data"})
        group(file, name, true);
      const auto length = static_cast<std::uint64_t>(4 + i % 5);
      add(file, {.path = trajectory + "/obs/sensor_data/depth",
                 .file_type = H5T_STD_I16LE,
                 .shape = {length, 8, 8, 1},
                 .chunk = {2, 4, 8, 1},
                 .filters = gzip()});
      const Hid boolean = test::boolean_type();
      add(file, {.path = trajectory + "/success", .file_type = boolean.get(), .shape = {length}});
      depth.push_back({"trajectory.h5", trajectory + "/obs/sensor_data/depth"});
      success.push_back({"trajectory.h5", trajectory + "/success"});
    }
  }
  expect_equal(
      {.files = {"trajectory.h5"}, .data = "traj_*/obs/sensor_data/depth", .target = "traj_*/success"},
      reference(depth), widened<std::uint8_t>(reference(success)));
}

TEST_F(Compatibility, reads_act_episodes_in_files) {
  std::vector<Place> images;
  std::vector<Place> actions;
  for (int i = 0; i < 11; ++i) {
    const std::string name = "episode_" + std::to_string(i) + ".hdf5";
    H5TestFile file(dir_ / name);
    group(file, "observations");
    group(file, "observations/images");
    add(file, {.path = "observations/images/top", .shape = {6, 12, 16, 3}, .chunk = {1, 12, 16, 3}});
    add(file, {.path = "action", .file_type = H5T_IEEE_F64LE, .shape = {6, 14}});
    images.push_back({name, "observations/images/top"});
    actions.push_back({name, "action"});
  }
  expect_equal({.files = {"episode_*.hdf5"}, .data = "observations/images/top", .target = "action"},
               reference(images), reference(actions));
}

TEST_F(Compatibility, reads_fastmri_volumes_by_slice) {
  std::vector<Place> kspace;
  std::vector<Place> target;
  const Hid complex(H5Tcreate(H5T_COMPOUND, 8));
  test::require(H5Tinsert(complex.get(), "r", 0, H5T_IEEE_F32LE), "H5Tinsert");
  test::require(H5Tinsert(complex.get(), "i", 4, H5T_IEEE_F32LE), "H5Tinsert");
  for (int i = 0; i < 4; ++i) {
    const std::string name = "file100000" + std::to_string(i) + ".h5";
    H5TestFile file(dir_ / name);
    const auto slices = static_cast<std::uint64_t>(3 + i);
    add(file, {.path = "kspace", .file_type = complex.get(), .shape = {slices, 4, 10, 6}});
    add(file, {.path = "reconstruction_rss", .file_type = H5T_IEEE_F32LE, .shape = {slices, 8, 8}});
    kspace.push_back({name, "kspace"});
    target.push_back({name, "reconstruction_rss"});
  }
  expect_equal({.files = {"*.h5"}, .data = "kspace", .target = "reconstruction_rss"}, reference(kspace),
               reference(target));
}

TEST_F(Compatibility, reads_femnist_clients) {
  std::vector<Place> pixels;
  std::vector<Place> labels;
  {
    H5TestFile file(dir_ / "fed_emnist_train.h5");
    group(file, "examples");
    for (int i = 0; i < 14; ++i) {
      const std::string client = "examples/f" + std::to_string(1000 + i) + "_42";
      group(file, client);
      const auto rows = static_cast<std::uint64_t>(3 + i % 4);
      add(file, {.path = client + "/pixels", .file_type = H5T_IEEE_F32LE, .shape = {rows, 10, 10}});
      add(file, {.path = client + "/label", .file_type = H5T_STD_I32LE, .shape = {rows}});
      pixels.push_back({"fed_emnist_train.h5", client + "/pixels"});
      labels.push_back({"fed_emnist_train.h5", client + "/label"});
    }
  }
  expect_equal({.files = {"fed_emnist_train.h5"}, .data = "examples/*/pixels", .target = "examples/*/label"},
               reference(pixels), widened<std::int32_t>(reference(labels)));
}

TEST_F(Compatibility, reads_one_group_for_each_sample) {
  std::vector<Place> data;
  std::vector<Place> target;
  {
    H5TestFile file(dir_ / "index.h5");
    for (int i = 0; i < 15; ++i) {
      const std::string name = std::to_string(i);
      group(file, name);
      add(file, {.path = name + "/data", .file_type = H5T_IEEE_F32LE, .shape = {4, 6}});
      add(file, {.path = name + "/target", .file_type = H5T_STD_I64LE});
      data.push_back({"index.h5", name + "/data"});
      target.push_back({"index.h5", name + "/target"});
    }
  }
  expect_equal({.files = {"index.h5"}, .data = "*/data", .target = "*/target", .sample = SampleUnit::dataset},
               reference(data), reference(target));
}

}  // namespace
}  // namespace h5feed::test
