// SPDX-License-Identifier: Apache-2.0
// Opening datasets: what one sample looks like, and what cannot serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DatasetInfo info_of(std::vector<std::uint64_t> shape, DType dtype = DType::u8) {
  DatasetInfo info;
  info.file = "x.h5";
  info.path = "/images";
  info.shape = std::move(shape);
  info.dtype = dtype;
  return info;
}

TEST(Geometry, of_fewer_than_three_dimensions_has_no_layout_but_none) {
  EXPECT_EQ(
      test::refusal_of<DatasetError>([] {
        data_geometry(info_of({1000, 20}), InputLayout::nchw);
      }),
      "x.h5:/images (1000×20 u8): input_layout NCHW needs 4 dimensions; input_layout = none delivers it "
      "as stored");
}

TEST(Geometry, delivers_3d_uint8_as_one_channel) {
  const SampleGeometry geometry = data_geometry(info_of({60000, 28, 28}), InputLayout::automatic);
  EXPECT_THAT(geometry.shape, ElementsAre(1, 28, 28));
  EXPECT_FALSE(geometry.channels_last);
}

TEST(Geometry, tells_channels_first_from_channels_last) {
  const SampleGeometry first = data_geometry(info_of({10, 3, 218, 178}), InputLayout::automatic);
  EXPECT_THAT(first.shape, ElementsAre(3, 218, 178));
  EXPECT_FALSE(first.channels_last);
  const SampleGeometry last = data_geometry(info_of({10, 96, 64, 3}, DType::f32), InputLayout::automatic);
  EXPECT_THAT(last.shape, ElementsAre(3, 96, 64));
  EXPECT_TRUE(last.channels_last);
}

TEST(Geometry, never_guesses) {
  for (const auto& shape : {std::vector<std::uint64_t>{10, 3, 64, 3}, {10, 5, 64, 5}, {10, 2, 3, 4, 5}}) {
    EXPECT_THAT(
        test::refusal_of<DatasetError>([&] { data_geometry(info_of(shape), InputLayout::automatic); }),
        HasSubstr("its layout is ambiguous; state it: input_layout = NCHW, NHWC, NHW, or none"));
  }
  EXPECT_THAT(test::refusal_of<DatasetError>([&] {
                data_geometry(info_of({9, 28, 28}, DType::f32), InputLayout::automatic);
              }),
              HasSubstr("x.h5:/images (9×28×28 f32)"));
}

TEST(Geometry, of_one_or_two_dimensions_can_only_be_delivered_as_stored) {
  EXPECT_THAT(data_geometry(info_of({10, 64}, DType::i64), InputLayout::automatic).shape, ElementsAre(64));
  EXPECT_THAT(data_geometry(info_of({10}), InputLayout::automatic).shape, ElementsAre());
  EXPECT_FALSE(looks_like_images({10, 64}, DType::u8));
}

TEST(Geometry, takes_the_users_word) {
  EXPECT_THAT(data_geometry(info_of({10, 3, 64, 3}), InputLayout::nchw).shape, ElementsAre(3, 64, 3));
  EXPECT_THAT(data_geometry(info_of({10, 3, 64, 3}), InputLayout::nhwc).shape, ElementsAre(3, 3, 64));
  EXPECT_THAT(data_geometry(info_of({10, 64, 32}, DType::f32), InputLayout::nhw).shape,
              ElementsAre(1, 64, 32));
  EXPECT_THAT(data_geometry(info_of({10, 512}, DType::i64), InputLayout::none).shape, ElementsAre(512));
  EXPECT_THROW(data_geometry(info_of({10, 512}), InputLayout::nchw), DatasetError);
  EXPECT_THROW(data_geometry(info_of({}), InputLayout::none), DatasetError);
}

TEST(Geometry, squeezes_targets_of_one_column) {
  EXPECT_TRUE(target_geometry(info_of({10, 1})).shape.empty());
  EXPECT_TRUE(target_geometry(info_of({10})).shape.empty());
  EXPECT_THAT(target_geometry(info_of({10, 40})).shape, ElementsAre(40));
}

TEST(Dataset, reads_labels_at_open) {
  const SampleSet set({.shape = {50, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
  EXPECT_EQ(dataset.size(), 50);
  EXPECT_THAT(dataset.sample_shape(), ElementsAre(1, 8, 6));
  EXPECT_EQ(dataset.dtype(), DType::u8);
  ASSERT_TRUE(dataset.has_target());
  const Field& target = *DatasetAccess::state(dataset)->target;
  ASSERT_TRUE(target.is_resident());
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(std::to_integer<std::int64_t>(target.resident.data()[i]), set.label(i));
  }
}

TEST(Dataset, finds_the_only_images_itself) {
  const SampleSet set({.shape = {20, 8, 6}});
  const Dataset dataset = Dataset::open({.files = {set.path()}});
  EXPECT_EQ(DatasetAccess::state(dataset)->data.info().path, "/images");
  EXPECT_FALSE(dataset.has_target());
}

TEST(Dataset, names_both_when_two_look_like_images) {
  const SampleSet set({.shape = {20, 8, 6}, .label_shape = {20, 4, 4}});
  EXPECT_EQ(
      test::refusal_of<DatasetError>([&] { Dataset::open({.files = {set.path()}}); }),
      set.path().string() + ": two datasets look like images: /images, /labels. Try .data = \"images\"");
}

TEST(Dataset, says_so_when_nothing_looks_like_images) {
  const SampleSet set({.shape = {20, 8}, .dtype = DType::f32});
  EXPECT_THAT(test::refusal_of<DatasetError>([&] { Dataset::open({.files = {set.path()}}); }),
              HasSubstr(". Name one with data"));
}

TEST(Dataset, refuses_labels_of_another_length) {
  const SampleSet set({.shape = {20, 8, 6}, .label_shape = {1019}});
  EXPECT_EQ(
      test::refusal_of<DatasetError>(
          [&] { Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"}); }),
      set.path().string() + ": /labels has 1,019 rows, /images has 20; a target needs one row per sample");
}

// The system and libhdf5 would open what stands in front of the null character.
TEST(Dataset, refuses_null_characters_in_paths_and_names) {
  using namespace std::string_literals;
  const SampleSet set({.shape = {20, 8, 6}});
  const auto refusal = [&](DatasetOptions options) {
    if (options.files.empty()) options.files = {set.path()};
    return test::refusal_of<OptionError>([&] { Dataset::open(options); });
  };
  const std::string why = " has a null character, which no path and no name can have; leave it out";
  EXPECT_EQ(refusal({.files = {set.path().string() + "\0x"s}}),
            "files: \"" + set.path().string() + "\\x00x\"" + why);
  EXPECT_EQ(refusal({.files = {set.path(), "*\0"s}}), "files[1]: \"*\\x00\"" + why);
  EXPECT_EQ(refusal({.data = "images\0x"s}), "data: \"images\\x00x\"" + why);
  EXPECT_EQ(refusal({.target = "labels\0"s}), "target: \"labels\\x00\"" + why);
  EXPECT_EQ(refusal({.target = "labels", .target_files = {"a\0"s}}), "target_files: \"a\\x00\"" + why);
  EXPECT_EQ(refusal({.tiles = TileOptions{.size = {4, 4}, .labels = "a\0"s}}),
            "tiles.labels: \"a\\x00\"" + why);
  EXPECT_EQ(refusal({.fields = {{.name = "a", .data = "a\0"s}, {.name = "b"}}}),
            "fields[0].data: \"a\\x00\"" + why);
  EXPECT_EQ(refusal({.fields = {{.name = "a", .files = {"b\0"s}}}}), "fields.files: \"b\\x00\"" + why);
  EXPECT_EQ(refusal({.stage_dir = "/tmp\0x"s}), "stage_dir: \"/tmp\\x00x\"" + why);
  const Dataset dataset = Dataset::open({.files = {set.path()}});
  EXPECT_EQ(test::refusal_of<OptionError>([&] { DataLoader(dataset, {.epoch_log = "log\0"s}); }),
            "epoch_log: \"log\\x00\"" + why);
}

TEST(Dataset, needs_a_file) {
  EXPECT_EQ(test::refusal_of<OptionError>([] { Dataset::open({}); }),
            "files is empty; name an HDF5 file, several, or a pattern such as \"train/*.h5\"");
}

}  // namespace
}  // namespace h5feed::test
