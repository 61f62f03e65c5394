// SPDX-License-Identifier: Apache-2.0
// Tiles that cannot be delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/image_tiles.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(Tiles, that_do_not_fit_are_refused_in_one_line) {
  const std::filesystem::path path = write("a.h5", make({3, 20, 30}), {1, 10, 10});
  const auto refused = [&](const TileOptions& tiles, InputLayout layout = InputLayout::automatic) {
    return refusal({.files = {path}, .data = "images", .input_layout = layout, .tiles = tiles});
  };
  EXPECT_EQ(refused({.size = 0}), "tiles.size must be 1 to 2147483647 in height and width; got 0×0");
  EXPECT_EQ(refused({}), "tiles.size must be 1 to 2147483647 in height and width; got 0×0");
  EXPECT_EQ(refused({.size = {4, -1}}), "tiles.size must be 1 to 2147483647 in height and width; got 4×-1");
  EXPECT_EQ(refused({.size = 4, .stride = TileExtent{0, 4}}),
            "tiles.stride must be 1 to 2147483647 in height and width; got 0×4");
  EXPECT_EQ(refused({.size = 4, .stride = 4, .overlap = 1}),
            "tiles.stride and tiles.overlap exclude each other; set one of them");
  EXPECT_EQ(refused({.size = 4, .overlap = TileExtent{1, 4}}),
            "tiles.overlap 1×4 must be smaller than tiles.size 4×4");
  EXPECT_EQ(refused({.size = 4, .overlap = -1}),
            "tiles.overlap must be 0 to 2147483647 in height and width; got -1×-1");
  const std::string too_large =
      "a.h5:/images (3×20×30 u8): tiles of 21×30 do not fit into images of 20×30; use a smaller tiles.size, "
      "or "
      "tiles.edges = pad";
  EXPECT_EQ(refused({.size = {21, 30}}), too_large);
  EXPECT_EQ(refused({.size = {21, 30}, .edges = TileEdges::shift}), too_large);
  EXPECT_EQ(
      refused({.size = 4}, InputLayout::none),
      "a.h5:/images: tiles need to know which dimensions are height and width; state it: input_layout = "
      "NCHW, NHWC or NHW");
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refused({.size = kHuge}), HasSubstr("tiles.size must be 1 to 2147483647"));
  EXPECT_EQ(
      refused({.size = 2147483647, .edges = TileEdges::pad}),
      "a.h5:/images: a tile of 2147483647×2147483647 is larger than any memory; use a smaller tiles.size");
  const std::filesystem::path one = write("one.h5", make({50, 60, 3}), {10, 10, 3});
  EXPECT_THAT(refusal({.files = {one}, .data = "images", .tiles = TileOptions{.size = 10}}),
              HasSubstr("If the dataset is one image, open it with sample = dataset"));
}

// Shapes that no file could hold but that one may claim: nothing of them is ever written.
TEST_F(Tiles, of_images_near_the_limits_of_64_bits_are_refused_or_counted) {
  // As much as h5feed takes for a shape: 2^61 bytes.
  const std::filesystem::path path = dir_ / "huge.h5";
  {
    H5TestFile file(path);
    file.create({.path = "most", .shape = {1, (1ULL << 31) - 1, 1ULL << 30}});
  }
  const auto open = [&](const std::string& data, const TileOptions& tiles) {
    return Dataset::open({.files = {path}, .data = data, .input_layout = InputLayout::nhw, .tiles = tiles});
  };
  EXPECT_THAT(refusal_of<DatasetError>([&] { open("most", {.size = 1, .stride = 1}); }),
              HasSubstr("more than 9,007,199,254,740,992 tiles; use a larger tiles.stride"));
  EXPECT_THAT(refusal_of<DatasetError>([&] { open("most", {.size = 2147483646, .edges = TileEdges::pad}); }),
              HasSubstr("is larger than any memory; use a smaller tiles.size"));
  // Few tiles of a size that can be: they are counted, and the first needs a chunk that no memory holds.
  const Dataset dataset = open("most", {.size = 1024, .stride = 2147483647});
  EXPECT_EQ(dataset.size(), 1);
  EXPECT_THAT(refusal_of<OptionError>([&] { DataLoader(dataset, {}); }), HasSubstr("memory_budget_bytes"));
}

TEST_F(Tiles, keep_no_rows_apart_from_their_chunks) {
  const std::filesystem::path path = write("a.h5", make({8, 40, 40}), {1, 20, 20});
  const Dataset dataset =
      Dataset::open({.files = {path}, .data = "images", .tiles = TileOptions{.size = 20}});
  EXPECT_THAT(refusal_of<OptionError>([&] {
                DataLoader(dataset,
                           {.shuffle = true, .cache_bytes = 1000, .cache_policy = CachePolicy::clairvoyant});
              }),
              HasSubstr("cache_policy = lru"));
}

}  // namespace
}  // namespace h5feed::test
