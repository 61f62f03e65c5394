// SPDX-License-Identifier: Apache-2.0
// Patches that cannot be delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "h5feed/data_loader.hpp"
#include "support/files/volume_patches.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(Patches, that_do_not_fit_are_refused_in_one_line) {
  write_volumes({{20, 30, 40}, {9, 31, 17}}, {8, 16, 16});
  const auto refused = [&](const TileOptions& tiles, InputLayout layout = InputLayout::ndhw) {
    return refusal(options_of(tiles, layout));
  };
  EXPECT_EQ(refused({.size = {21, 8, 8}}),
            "volume_1.h5:/raw (1×20×30×40 u16): tiles of 21×8×8 do not fit into images of 20×30×40; use a "
            "smaller tiles.size, or tiles.edges = pad");
  EXPECT_THAT(refused({.size = {10, 8, 8}}), HasSubstr("volume_2.h5:/raw (1×9×31×17 u16): tiles of 10×8×8"));
  EXPECT_THAT(refused({.size = {99, 99, 99}, .per_image = 4}),
              HasSubstr("do not fit into images of 20×30×40"));
  EXPECT_EQ(refused({.size = {-1, 8, 8}}),
            "tiles.size must be 1 to 2147483647 in depth, or 0 in two dimensions; got -1×8×8");
  EXPECT_EQ(refused({.size = {8, -8, 8}}),
            "tiles.size must be 1 to 2147483647 in height and width; got 8×-8×8");
  EXPECT_THAT(refused({.size = {std::numeric_limits<std::int64_t>::max(), 8, 8}}),
              HasSubstr("tiles.size must be"));
  EXPECT_THAT(refused({.size = {2147483647, 2147483647, 2147483647}, .edges = TileEdges::pad}),
              HasSubstr("is larger than any memory; use a smaller tiles.size"));
  EXPECT_THAT(
      refused({.size = 8}),
      HasSubstr("tiles.size 8×8 has no depth, and the images are volumes; give depth, height and width"));
  EXPECT_THAT(refused({.size = {8, 8, 8}, .stride = 4}), HasSubstr("tiles.stride 4×4 has no depth"));
  EXPECT_EQ(refused({.size = {8, 8, 8}, .overlap = TileExtent{8, 1, 1}}),
            "tiles.overlap 8×1×1 must be smaller than tiles.size 8×8×8");
  EXPECT_THAT(refused({.size = {8, 8, 8}}, InputLayout::nchw),
              HasSubstr("and the images have none; give height"));
  EXPECT_THAT(refused({.size = {8, 8, 8}}, InputLayout::none),
              HasSubstr("tiles need to know which dimensions"));
  EXPECT_THAT(refused({.size = {8, 8, 8}}, InputLayout::ncdhw),
              HasSubstr("input_layout NCDHW needs 5 dimensions; state it"));
}

TEST_F(Patches, of_volumes_without_pixels_are_refused) {
  write_volumes({{20, 30, 40}, {0, 30, 40}}, {});
  for (const std::int64_t drawn : {0, 3}) {
    EXPECT_EQ(refusal(options_of({.size = {8, 8, 8}, .edges = TileEdges::pad, .per_image = drawn})),
              "volume_2.h5:/raw (1×0×30×40 u16) has no pixels to take tiles of; leave it out");
  }
}

TEST_F(Patches, with_options_that_contradict_each_other_are_refused) {
  write_volumes({{20, 30, 40}}, {8, 16, 16});
  const auto refused = [&](const TileOptions& tiles) {
    DatasetOptions options = options_of(tiles);
    options.target = "label";
    return refusal(options);
  };
  const TileExtent size{8, 8, 8};
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refused({.size = size, .per_image = -1}), "tiles.per_image must be 0 to 2147483648; got -1");
  EXPECT_THAT(refused({.size = size, .per_image = std::numeric_limits<std::int64_t>::max()}),
              HasSubstr("tiles.per_image must be"));
  EXPECT_EQ(
      refused({.size = size, .stride = size, .per_image = 2}),
      "tiles.per_image and tiles.stride exclude each other: tiles at random places form no grid; set one "
      "of them");
  EXPECT_THAT(refused({.size = size, .overlap = TileExtent{1, 1, 1}, .per_image = 2}),
              HasSubstr("tiles.per_image and tiles.overlap exclude each other"));
  EXPECT_EQ(refused({.size = size, .per_image = 2, .foreground = kNaN}),
            "tiles.foreground must be 0 to 1; got nan");
  EXPECT_EQ(refused({.size = size, .per_image = 2, .foreground = 1.5}),
            "tiles.foreground must be 0 to 1; got 1.5");
  EXPECT_THAT(refused({.size = size, .per_image = 2, .foreground = -0.1}), HasSubstr("must be 0 to 1"));
  EXPECT_THAT(refused({.size = size, .min_foreground = kNaN}),
              HasSubstr("tiles.min_foreground must be 0 to 1"));
  EXPECT_THAT(refused({.size = size, .min_foreground = 2}), HasSubstr("tiles.min_foreground must be 0 to 1"));
  EXPECT_THAT(refused({.size = size, .foreground = 0.5}), HasSubstr("set tiles.per_image to their number"));
  EXPECT_THAT(refused({.size = size, .per_image = 2, .min_foreground = 0.5}), HasSubstr("only in a grid"));
  EXPECT_THAT(refused({.size = size, .labels = "label"}), HasSubstr("tiles.labels \"label\" is used by"));
  EXPECT_THAT(refused({.size = size, .per_image = 2, .foreground = 0.5, .labels = "seg"}),
              HasSubstr("tiles.labels names no field: there is no \"seg\""));
  EXPECT_THAT(
      refused({.size = size, .min_foreground = 0.9}),
      HasSubstr("none of 30 tiles has a share of 0.9 labelled pixels; use a smaller tiles.min_foreground"));
  EXPECT_EQ(
      refused({.size = {4, 8, 8}, .turns = TileTurns::all}),
      "tiles.turns = all turns tiles by 90° and needs equal extents; tiles.size is 4×8×8; use tiles.turns = "
      "planar");
  EXPECT_THAT(refused({.size = {8, 8, 4}, .turns = TileTurns::planar}), HasSubstr("use tiles.turns = flips"));
}

TEST_F(Patches, without_fitting_labels_are_refused) {
  write_volumes({{20, 30, 40}}, {8, 16, 16});
  {
    H5TestFile file(dir_ / "more.h5");
    file.create({.path = "floats", .file_type = H5T_IEEE_F32LE, .shape = {20, 30, 40}});
    file.create({.path = "small", .shape = {20, 30, 39}});
    file.create({.path = "two", .shape = {2, 20, 30, 40}});
  }
  const TileOptions tiles{.size = {8, 8, 8}, .per_image = 2, .foreground = 0.5};
  EXPECT_EQ(refusal(options_of(tiles)),
            "tiles.foreground needs labels: name their dataset as target, or as a field and that with "
            "tiles.labels");
  const auto with_target = [&](const char* target) {
    DatasetOptions options = options_of(tiles);
    options.target = target;
    options.target_files = {dir_ / "more.h5"};
    return refusal(options);
  };
  for (const char* const target : {"floats", "small", "two"}) {
    EXPECT_THAT(with_target(target), HasSubstr("needs an integer for each pixel of an image, of one channel"))
        << target;
  }
}

TEST_F(Patches, of_labels_that_differ_from_differing_volumes_are_refused) {
  write_volumes({{20, 30, 40}, {9, 31, 17}}, {8, 16, 16});
  std::vector<std::filesystem::path> label_files;
  for (const std::uint64_t depth : {std::uint64_t{20}, std::uint64_t{10}}) {
    label_files.push_back(dir_ / ("labels_" + std::to_string(depth) + ".h5"));
    H5TestFile file(label_files.back());
    file.create({.path = "label", .shape = {depth, 30, 40}});
  }
  DatasetOptions options = options_of({.size = {8, 8, 8}});
  options.target = "label";
  options.target_files = label_files;
  EXPECT_THAT(refusal(options),
              HasSubstr("the target's datasets differ in shape, and they are not cut into tiles"));
}

TEST_F(Patches, cannot_be_augmented_as_images_or_kept_by_row) {
  write_volumes({{20, 30, 40}, {20, 30, 40}}, {8, 16, 16});
  const Dataset dataset = Dataset::open(options_of({.size = {8, 8, 8}, .per_image = 20}));
  EXPECT_THAT(
      refusal_of<OptionError>([&] { DataLoader(dataset, {.augment = Augment{.horizontal_flip = 0.5}}); }),
      HasSubstr("augment is for images of two dimensions"));
  EXPECT_THAT(
      refusal_of<OptionError>([&] { DataLoader(dataset, {.output_layout = OutputLayout::channels_last}); }),
      HasSubstr("holds volumes; leave it unset (tiles.turns flips and turns patches)"));
  EXPECT_THAT(refusal_of<OptionError>([&] {
                DataLoader(dataset, {.cache_bytes = 1000, .cache_policy = CachePolicy::clairvoyant});
              }),
              HasSubstr("cache_policy = lru"));
  EXPECT_THAT(refusal_of<OptionError>([&] { dataset.tile_grid(2); }), HasSubstr("accepted"));
  EXPECT_EQ(
      refusal_of<OptionError>([&] { DataLoader(dataset, {.shuffle = "chunk:3"}); }),
      "shuffle \"chunk:3\": the data has 2 images, whose chunks count as one; use \"chunk:2\" or less, or "
      "\"full\"");
  const Dataset grid = Dataset::open(options_of({.size = {8, 8, 8}}));
  EXPECT_THAT(refusal_of<OptionError>([&] { grid.tile_grid(2); }), HasSubstr("there is no image 2"));
}

}  // namespace
}  // namespace h5feed::test
