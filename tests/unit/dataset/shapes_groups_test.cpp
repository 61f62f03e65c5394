// SPDX-License-Identifier: Apache-2.0
// Group for an episode, group for a sample, file for a sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Groups : public testing::Test {
 protected:
  void group(H5TestFile& file, const std::string& path) {
    const test::Hid made(H5Gcreate2(file.id(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }

  // A dataset whose bytes go on from those before.
  void add(H5TestFile& file, const std::string& path, std::vector<std::uint64_t> shape,
           std::vector<std::uint64_t> chunk = {}) {
    std::size_t bytes = 1;
    for (const std::uint64_t extent : shape) bytes *= extent;
    const std::vector<std::byte> values = test::random_bytes(bytes, seed_++);
    test::TestDataset dataset{.path = path, .shape = std::move(shape), .chunk = std::move(chunk)};
    if (!dataset.chunk.empty()) dataset.filters = {{.id = 1, .params = {1}}};
    file.create(dataset);
    file.write(path, values);
    all_.insert(all_.end(), values.begin(), values.end());
  }

  std::string refusal(const DatasetOptions& options) const {
    return refusal_in<Error>(dir_.path(), [&] { Dataset::open(options); });
  }

  std::filesystem::path path() const { return dir_ / "demo.hdf5"; }

  TempDir dir_;
  unsigned seed_ = 1;
  std::vector<std::byte> all_;
};

TEST_F(Groups, of_episodes_are_read_as_one_in_the_order_of_their_numbers) {
  {
    H5TestFile file(path());
    group(file, "data");
    for (const char* const demo : {"data/demo_0", "data/demo_1", "data/demo_2", "data/demo_10"}) {
      group(file, demo);
      group(file, std::string(demo) + "/obs");
    }
    // Written in the order in which they are to be read, listed by name in another.
    add(file, "data/demo_0/obs/image", {9, 6, 5, 3}, {4, 6, 5, 3});
    add(file, "data/demo_1/obs/image", {1, 6, 5, 3});
    add(file, "data/demo_2/obs/image", {11, 6, 5, 3}, {3, 3, 5, 3});
    add(file, "data/demo_10/obs/image", {4, 6, 5, 3}, {4, 6, 5, 3});
    group(file, "mask");
  }
  const Dataset dataset =
      Dataset::open({.files = {path()}, .data = "data/demo_*/obs/image", .input_layout = InputLayout::none});
  EXPECT_EQ(dataset.size(), 25);
  EXPECT_EQ(first_difference(dataset, all_), "");
  EXPECT_EQ(dataset.origin(9).path, "/data/demo_1/obs/image");
  EXPECT_EQ(dataset.origin(23).path, "/data/demo_10/obs/image");
  EXPECT_EQ(dataset.origin(23).row, 2);
}

TEST_F(Groups, of_samples_have_a_dataset_each) {
  std::vector<std::byte> labels;
  {
    H5TestFile file(path());
    for (int i = 0; i < 12; ++i) {
      group(file, std::to_string(i));
      add(file, std::to_string(i) + "/data", {3, 6, 5},
          i % 2 == 0 ? std::vector<std::uint64_t>{3, 4, 5} : std::vector<std::uint64_t>());
      file.create({.path = std::to_string(i) + "/target", .file_type = H5T_STD_I64LE});
      const std::int64_t label = 100 - i;
      file.write(std::to_string(i) + "/target", std::as_bytes(std::span(&label, 1)));
      const auto bytes = std::as_bytes(std::span(&label, 1));
      labels.insert(labels.end(), bytes.begin(), bytes.end());
    }
  }
  const Dataset dataset = Dataset::open(
      {.files = {path()}, .data = "*/data", .target = "*/target", .sample = SampleUnit::dataset});
  EXPECT_EQ(dataset.size(), 12);
  EXPECT_THAT(dataset.sample_shape(), ElementsAre(3, 6, 5));
  EXPECT_EQ(first_difference(dataset, all_, labels), "");
  EXPECT_EQ(dataset.origin(10).path, "/10/data");
}

TEST_F(Groups, may_have_their_samples_in_files) {
  for (int i = 0; i < 11; ++i) {
    H5TestFile file(dir_ / (std::to_string(i) + ".h5"));
    add(file, "rgb", {3, 6, 5});
    const std::vector<std::byte> images = std::exchange(all_, {});
    add(file, "depth", {6, 5});
    all_ = images;
  }
  // The depths were not kept: the images of all files are compared in order.
  all_.clear();
  for (int i = 0; i < 11; ++i) {
    const auto values = test::read_through_libhdf5(dir_ / (std::to_string(i) + ".h5"), "rgb");
    all_.insert(all_.end(), values.begin(), values.end());
  }
  const Dataset dataset =
      Dataset::open({.files = {dir_ / "*.h5"}, .data = "rgb", .sample = SampleUnit::dataset});
  EXPECT_EQ(dataset.size(), 11);
  EXPECT_EQ(first_difference(dataset, all_), "");
  EXPECT_EQ(dataset.origin(10).file, (dir_ / "10.h5").string());
}

TEST_F(Groups, are_named_where_one_lacks_a_member_or_fits_no_pattern) {
  {
    H5TestFile file(path());
    for (const char* const name : {"data", "data/a", "data/b", "data/b/obs"}) group(file, name);
    add(file, "data/a/image", {4, 6, 5});
    add(file, "data/b/obs/depth", {4, 6, 5});
    add(file, "data/b/actions", {4, 7});
  }
  EXPECT_EQ(
      refusal({.files = {path()}, .data = "data/*/image"}),
      "demo.hdf5: group /data/b has no \"image\"; it has actions, obs. Add it, or choose a pattern that "
      "leaves the group out");
  EXPECT_EQ(refusal({.files = {path()}, .data = "data/c*/image"}),
            "demo.hdf5: nothing matches .data = \"data/c*/image\"; it has /data/a/image (4×6×5 u8), "
            "/data/b/actions (4×7 u8), /data/b/obs/depth (4×6×5 u8)");
  EXPECT_THAT(refusal({.files = {path()}, .data = "data/*/*"}),
              HasSubstr("datasets that are read as one need the same type"));
}

TEST_F(Groups, may_have_names_that_look_like_patterns) {
  {
    H5TestFile file(path());
    group(file, "a[1]");
    add(file, "a[1]/x", {4, 6, 5});
  }
  EXPECT_EQ(first_difference(Dataset::open({.files = {path()}, .data = "a[1]/x"}), all_), "");
}

TEST_F(Groups, are_named_where_a_link_leads_nowhere) {
  {
    H5TestFile file(path());
    add(file, "x", {4, 6, 5});
    group(file, "g");
    test::require(H5Lcreate_soft("/moved/images", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT),
                  "H5Lcreate_soft");
    test::require(H5Lcreate_external("gone.h5", "/images", file.id(), "g/external", H5P_DEFAULT, H5P_DEFAULT),
                  "H5Lcreate_external");
  }
  EXPECT_EQ(refusal({.files = {path()}, .data = "soft"}),
            "demo.hdf5: /soft is a link to /moved/images, which is not there; restore it");
  for (const std::string name : {"g/external", "g/external/more"}) {
    EXPECT_EQ(refusal({.files = {path()}, .data = name}),
              "demo.hdf5: \"" + name +
                  "\" leads into another file, gone.h5, which is missing; put it next to the "
                  "file that has the link, or set HDF5_EXT_PREFIX to its folder");
  }
}

TEST_F(Groups, go_with_the_targets_of_the_same_group) {
  {
    H5TestFile file(path());
    for (const char* const name :
         {"data", "data/demo_0", "data/demo_1", "a", "a/0", "a/1", "a/2", "b", "b/0", "b/1", "b/5"})
      group(file, name);
    add(file, "data/demo_0/rgb", {5, 6, 5});
    add(file, "data/demo_1/rgb", {4, 6, 5});
    add(file, "data/demo_0/act", {4, 2});
    add(file, "data/demo_1/act", {5, 2});
    for (const char* const name : {"a/0/x", "a/1/x", "a/2/x"}) add(file, name, {3, 6, 5});
    for (const char* const name : {"b/0/y", "b/1/y", "b/5/y"}) add(file, name, {3});
  }
  EXPECT_EQ(
      refusal({.files = {path()}, .data = "data/demo_*/rgb", .target = "data/demo_*/act"}),
      "demo.hdf5: /data/demo_0/act has 4 rows, /data/demo_0/rgb has 5; a target needs one row per sample");
  EXPECT_EQ(
      refusal({.files = {path()}, .data = "a/*/x", .target = "b/*/y"}),
      "demo.hdf5: /b/5/y would go with /a/2/x; a target needs the same groups as the data, add the missing "
      "groups or leave them out of both patterns");
  EXPECT_THAT(refusal({.files = {path()}, .data = "a/*/x", .fields = {{.name = "y", .data = "b/*/y"}}}),
              HasSubstr("/b/5/y would go with /a/2/x; a field needs the same groups"));
  EXPECT_EQ(Dataset::open({.files = {path()}, .data = "a/[01]/x", .target = "b/[01]/y"}).size(), 6);
}

TEST_F(Groups, may_have_neighbours_that_a_narrower_pattern_leaves_out) {
  {
    H5TestFile file(path());
    for (const char* const name : {"data", "data/demo_0"}) group(file, name);
    add(file, "data/demo_0/rgb", {4, 6, 5});
    add(file, "data/note", {3});
  }
  EXPECT_EQ(
      refusal({.files = {path()}, .data = "data/*/rgb"}),
      "demo.hdf5: \"data/*/rgb\" matches /data/note, which is no group; choose a pattern that leaves it out");
}

TEST_F(Groups, of_targets_with_dimensions_of_one_give_one_number_a_sample) {
  {
    H5TestFile file(path());
    add(file, "x", {4, 6, 5});
    add(file, "y", {4, 1, 1, 1});
  }
  const Dataset dataset = Dataset::open({.files = {path()}, .data = "x", .target = "y"});
  EXPECT_TRUE(DatasetAccess::state(dataset)->target->geometry.shape.empty());
  EXPECT_EQ(refusal({.files = {path()}, .data = "x", .images = {.height = 8, .width = 8}}),
            "images.height and images.width: only encoded images are scaled; leave it unset");
}

TEST_F(Groups, of_masks_are_spoken_of_where_augment_leaves_them_alone) {
  {
    H5TestFile file(path());
    add(file, "x", {4, 6, 5});
    add(file, "mask", {4, 6, 5});
    add(file, "label", {4});
  }
  const auto log_of = [&](const DatasetOptions& options) {
    const test::CapturedLog log;
    DataLoaderOptions flipped{.batch_size = 2};
    flipped.augment = Augment{.horizontal_flip = 0.5};
    const DataLoader loader(Dataset::open(options), flipped);
    return log.lines();
  };
  const auto speaks = Contains(HasSubstr("augment crops and flips only the images"));
  EXPECT_THAT(log_of({.files = {path()}, .data = "x", .target = "mask"}), speaks);
  EXPECT_THAT(log_of({.files = {path()}, .data = "x", .fields = {{.name = "mask"}}}), speaks);
  EXPECT_THAT(log_of({.files = {path()}, .data = "x", .target = "label", .fields = {{.name = "label"}}}),
              Not(speaks));
}

}  // namespace
}  // namespace h5feed::test
