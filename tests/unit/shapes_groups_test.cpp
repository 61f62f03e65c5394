// Group for an episode, group for a sample, file for a sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "support/h5_test_file.hpp"
#include "support/loaded_rows.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

namespace h5feed {
namespace {

using test::first_difference;
using test::H5TestFile;
using test::refusal_of;
using test::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;

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
    std::string text = refusal_of<Error>([&] { Dataset::open(options); });
    const std::string prefix = dir_.path().string() + "/";
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
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
            "demo.hdf5: nothing matches --data \"data/c*/image\"; it has /data/a/image (4×6×5 u8), "
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
  EXPECT_EQ(refusal({.files = {path()}, .data = "g/external"}),
            "demo.hdf5: /g/external is a link to gone.h5:/images, which is not there; restore it");
  EXPECT_EQ(refusal({.files = {path()}, .data = "g/external/more"}),
            "demo.hdf5: /g/external is a link to gone.h5:/images, which is not there; restore it");
}

}  // namespace
}  // namespace h5feed
