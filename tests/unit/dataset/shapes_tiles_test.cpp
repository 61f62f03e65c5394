// SPDX-License-Identifier: Apache-2.0
// Samples that are windows of large images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/image_tiles.hpp"
#include "support/loaders/loaded_rows.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

struct TileCase {
  const char* name;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk;
  InputLayout layout;
  TileOptions tiles;
  std::int64_t per_image;
};

void PrintTo(const TileCase& tile_case, std::ostream* out) { *out << tile_case.name; }

class TileCases : public Tiles, public testing::WithParamInterface<TileCase> {};

// In the order of the grid, from the images themselves: what a loop over h5py slices would give.
TEST_P(TileCases, are_the_windows_of_the_images_whatever_order_and_workers) {
  const TileCase& tile_case = GetParam();
  const bool planar = tile_case.layout == InputLayout::nchw;
  const StoredImages images = make(tile_case.shape, planar ? 2 : 1, planar ? 3 : 2);
  const Dataset dataset = Dataset::open({.files = {write("a.h5", images, tile_case.chunk)},
                                         .data = "images",
                                         .input_layout = tile_case.layout,
                                         .tiles = tile_case.tiles});
  const std::uint64_t count = tile_case.shape[0];
  ASSERT_EQ(dataset.tile_grid()->per_image(), tile_case.per_image);
  ASSERT_EQ(dataset.size(), static_cast<std::int64_t>(count) * tile_case.per_image);
  const auto height = static_cast<std::uint64_t>(tile_case.tiles.size.height);
  const auto width = static_cast<std::uint64_t>(tile_case.tiles.size.width);
  // One channel, so that what is delivered is what is stored.
  std::vector<std::byte> expected;
  for (std::int64_t sample = 0; sample < dataset.size(); ++sample) {
    const SampleOrigin origin = dataset.origin(sample);
    EXPECT_EQ(origin.image, sample / tile_case.per_image);
    EXPECT_EQ(origin.row, origin.image);
    const auto tile =
        images.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                      static_cast<std::uint64_t>(origin.x), height, width);
    expected.insert(expected.end(), tile.begin(), tile.end());
  }
  EXPECT_EQ(first_difference(dataset, expected), "");
  expect_tiles(dataset, images, height, width, {.batch_size = 7, .shuffle = true, .num_workers = 2});
  expect_tiles(dataset, images, height, width, {.batch_size = 7, .cache_bytes = 0});
}

INSTANTIATE_TEST_SUITE_P(
    Of, TileCases,
    testing::Values(TileCase{"aligned_chunks", {3, 20, 30}, {1, 10, 10}, InputLayout::nhw, {.size = 10}, 6},
                    TileCase{"edges_dropped", {3, 25, 33}, {1, 10, 10}, InputLayout::nhw, {.size = 10}, 6},
                    TileCase{"edges_padded",
                             {3, 25, 33},
                             {1, 10, 10},
                             InputLayout::nhw,
                             {.size = 10, .edges = TileEdges::pad},
                             12},
                    TileCase{"edges_shifted",
                             {3, 25, 33},
                             {1, 10, 10},
                             InputLayout::nhw,
                             {.size = 10, .edges = TileEdges::shift},
                             12},
                    TileCase{"overlap",
                             {2, 25, 33},
                             {1, 10, 10},
                             InputLayout::nhw,
                             {.size = 12, .overlap = 5, .edges = TileEdges::pad},
                             12},
                    TileCase{"gaps",
                             {2, 25, 33},
                             {1, 7, 9},
                             InputLayout::nhw,
                             {.size = {3, 4}, .stride = TileExtent{11, 8}, .edges = TileEdges::shift},
                             15},
                    TileCase{"chunks_of_several_images",
                             {7, 12, 13},
                             {3, 5, 13},
                             InputLayout::nhw,
                             {.size = {4, 5}, .stride = TileExtent{3, 4}, .edges = TileEdges::pad},
                             12},
                    TileCase{"contiguous",
                             {3, 25, 33},
                             {},
                             InputLayout::nhw,
                             {.size = {8, 11}, .edges = TileEdges::shift},
                             12},
                    TileCase{"larger_than_the_image",
                             {3, 9, 7},
                             {2, 4, 4},
                             InputLayout::nhw,
                             {.size = 16, .edges = TileEdges::pad},
                             1},
                    TileCase{"one_pixel", {2, 5, 6}, {1, 2, 2}, InputLayout::nhw, {.size = 1}, 30},
                    TileCase{"channels_first",
                             {2, 1, 25, 33},
                             {1, 1, 10, 10},
                             InputLayout::nchw,
                             {.size = {10, 12}, .edges = TileEdges::shift},
                             9},
                    TileCase{"channels_last",
                             {2, 25, 33, 1},
                             {1, 10, 10, 1},
                             InputLayout::nhwc,
                             {.size = {10, 12}, .edges = TileEdges::pad},
                             9}),
    [](const auto& named) { return std::string(named.param.name); });

TEST_F(Tiles, of_colour_images_are_delivered_channels_first) {
  const StoredImages images = make({2, 21, 17, 3});
  const Dataset dataset = Dataset::open({.files = {write("a.h5", images, {1, 8, 8, 3})},
                                         .tiles = TileOptions{.size = 8, .edges = TileEdges::pad}});
  ASSERT_EQ(dataset.sample_shape(), (std::vector<std::int64_t>{3, 8, 8}));
  DataLoader loader(dataset, {.batch_size = 5, .num_workers = 2, .provenance = true});
  while (const auto batch = loader.next()) {
    const std::vector<std::byte> bytes = bytes_of(batch->data);
    for (std::size_t i = 0; i < batch->origins.size(); ++i) {
      const SampleOrigin& origin = batch->origins[i];
      const std::vector<std::byte> stored =
          images.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                        static_cast<std::uint64_t>(origin.x), 8, 8);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        for (std::size_t pixel = 0; pixel < 64; ++pixel)
          ASSERT_EQ(bytes[i * 192 + channel * 64 + pixel], stored[pixel * 3 + channel]);
      }
    }
  }
}

TEST_F(Tiles, of_planes_whose_channels_are_chunks_of_their_own_and_of_a_list_of_files) {
  const StoredImages all = make({5, 3, 19, 23}, 2, 3);
  const std::size_t image_bytes = all.bytes.size() / 5;
  const auto part = [&](std::uint64_t first, std::uint64_t count) {
    const auto begin = all.bytes.begin() + static_cast<std::ptrdiff_t>(first * image_bytes);
    return StoredImages{
        {count, 3, 19, 23}, 2, 3, {begin, begin + static_cast<std::ptrdiff_t>(count * image_bytes)}};
  };
  const Dataset dataset = Dataset::open(
      {.files = {write("a.h5", part(0, 3), {2, 1, 7, 8}), write("b.h5", part(3, 2), {2, 1, 7, 8})},
       .data = "images",
       .tiles = TileOptions{.size = 9, .overlap = 2, .edges = TileEdges::shift}});
  EXPECT_EQ(dataset.origin(dataset.size() - 1).image, 4);
  EXPECT_EQ(dataset.origin(dataset.size() - 1).row, 1);
  EXPECT_THAT(dataset.origin(dataset.size() - 1).file, HasSubstr("b.h5"));
  for (const char* const order : {"sequential", "full", "chunk:2"}) {
    for (const std::int64_t workers : {0, 1, 4}) {
      SCOPED_TRACE(order + std::to_string(workers));
      expect_tiles(dataset, all, 9, 9, {.batch_size = 4, .shuffle = order, .num_workers = workers});
    }
  }
}

TEST_F(Tiles, of_one_image_that_is_a_dataset_of_its_own) {
  StoredImages image = make({1, 22, 31, 3});
  const std::filesystem::path path = dir_ / "one.h5";
  {
    H5TestFile file(path);
    file.create(
        {.path = "image", .shape = {22, 31, 3}, .chunk = {8, 8, 3}, .filters = {{.id = 1, .params = {1}}}});
    file.write("image", image.bytes);
  }
  const Dataset dataset = Dataset::open({.files = {path},
                                         .data = "image",
                                         .sample = SampleUnit::dataset,
                                         .tiles = TileOptions{.size = 8, .edges = TileEdges::shift}});
  EXPECT_EQ(dataset.size(), 12);
  EXPECT_EQ(dataset.origin(11).y, 14);
  EXPECT_EQ(dataset.origin(11).x, 23);
  EXPECT_EQ(dataset.origin(11).row, 0);
  DataLoader loader(dataset, {.batch_size = 12});
  const auto batch = loader.next();
  const std::vector<std::byte> tile = image.window(0, 14, 23, 8, 8);
  for (std::size_t pixel = 0; pixel < 64; ++pixel)
    EXPECT_EQ(bytes_of(batch->data)[11 * 192 + pixel], tile[pixel * 3]);
}

// 512×512 of 5000×5000×3 by chunks of (512,512,3), at an eighth of the size and with two images.
TEST_F(Tiles, in_image_order_decode_every_chunk_once) {
  const StoredImages images = make({2, 625, 625, 3});
  const std::filesystem::path path = write("a.h5", images, {1, 64, 64, 3});
  struct Case {
    TileOptions tiles;
    std::uint64_t chunks;
  };
  for (const Case& one :
       {Case{{.size = 64, .edges = TileEdges::pad}, 200}, Case{{.size = 64, .edges = TileEdges::shift}, 200},
        Case{{.size = 64, .overlap = 16, .edges = TileEdges::shift}, 200}, Case{{.size = 64}, 162}}) {
    const Dataset dataset = Dataset::open({.files = {path}, .data = "images", .tiles = one.tiles});
    for (const std::int64_t workers : {0, 2}) {
      for (const std::uint64_t cache : {std::uint64_t{1} << 30, std::uint64_t{900'000}}) {
        // The small cache holds what 4 batches of a row of tiles touch, not an image (1.2 MB).
        DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers, .cache_bytes = cache});
        while (loader.next()) {
        }
        EXPECT_EQ(loader.stats().chunk_loads, one.chunks) << workers << " workers, cache " << cache;
      }
    }
  }
}

TEST_F(Tiles, of_one_image_stay_together_in_windows_of_chunks) {
  const StoredImages images = make({12, 20, 30});
  const Dataset dataset = Dataset::open(
      {.files = {write("a.h5", images, {1, 10, 10})}, .data = "images", .tiles = TileOptions{.size = 10}});
  DataLoader loader(dataset, {.batch_size = 6, .shuffle = "chunk:2", .provenance = true});
  std::map<std::int64_t, std::int64_t> tiles_left;
  while (const auto batch = loader.next()) {
    for (const SampleOrigin& origin : batch->origins) ++tiles_left[origin.image];
    std::erase_if(tiles_left, [](const auto& image) { return image.second == 6; });
    EXPECT_LE(tiles_left.size(), 2u);
  }
  EXPECT_EQ(loader.stats().chunk_loads, 72u);
}

TEST_F(Tiles, carry_the_label_of_their_image_or_their_part_of_a_mask) {
  const StoredImages images = make({4, 20, 30, 3});
  const StoredImages mask = make({4, 20, 30});
  const std::filesystem::path path = write("a.h5", images, {1, 10, 10, 3});
  const std::vector<std::int32_t> labels = {7, 5, 3, 9};
  {
    const test::Hid file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const auto put = [&](const char* name, hid_t type, const std::vector<hsize_t>& shape,
                         const void* values) {
      const test::Hid space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
      const test::Hid set(
          H5Dcreate2(file.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      test::require(H5Dwrite(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
    };
    put("label", H5T_NATIVE_INT32, {4}, labels.data());
    put("mask", H5T_NATIVE_UINT8, {4, 20, 30}, mask.bytes.data());
  }
  const TileOptions tiles{.size = {8, 12}, .edges = TileEdges::pad};
  const Dataset labelled =
      Dataset::open({.files = {path}, .data = "images", .target = "label", .tiles = tiles});
  const Dataset masked = Dataset::open({.files = {path}, .data = "images", .target = "mask", .tiles = tiles});
  for (const std::int64_t workers : {0, 2}) {
    const DataLoaderOptions options{
        .batch_size = 5, .shuffle = true, .num_workers = workers, .provenance = true};
    DataLoader by_label(labelled, options);
    while (const auto batch = by_label.next()) {
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        EXPECT_EQ(batch->target.as<std::int64_t>()[i],
                  labels[static_cast<std::size_t>(batch->origins[i].image)]);
      }
    }
    DataLoader by_mask(masked, options);
    while (const auto batch = by_mask.next()) {
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        const SampleOrigin& origin = batch->origins[i];
        const auto part =
            mask.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                        static_cast<std::uint64_t>(origin.x), 8, 12);
        for (std::size_t pixel = 0; pixel < part.size(); ++pixel) {
          ASSERT_EQ(batch->target.as<std::int64_t>()[i * part.size() + pixel],
                    std::to_integer<std::int64_t>(part[pixel]));
        }
      }
    }
  }
}

TEST_F(Tiles, cut_fields_by_the_layout_that_these_have) {
  const StoredImages images = make({4, 3, 20, 30}, 2, 3);
  const StoredImages mask = make({4, 20, 30, 1});
  const std::filesystem::path path = write("a.h5", images);
  const std::filesystem::path masks = write("masks.h5", mask);
  const Dataset dataset = Dataset::open(
      {.files = {path},
       .data = "images",
       .tiles = TileOptions{.size = {8, 12}, .edges = TileEdges::pad},
       .fields = {{.name = "mask", .data = "images", .files = {masks}, .input_layout = InputLayout::nhwc}}});
  DataLoader loader(dataset, {.batch_size = 5, .provenance = true});
  while (const auto batch = loader.next()) {
    const std::vector<std::byte> parts = bytes_of(batch->field("mask").values);
    ASSERT_EQ(parts.size(), batch->origins.size() * 8 * 12);
    for (std::size_t i = 0; i < batch->origins.size(); ++i) {
      const SampleOrigin& origin = batch->origins[i];
      const auto part =
          mask.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                      static_cast<std::uint64_t>(origin.x), 8, 12);
      EXPECT_EQ(std::memcmp(part.data(), parts.data() + i * part.size(), part.size()), 0);
    }
  }
}

TEST_F(Tiles, come_at_any_place_from_a_sample_reader_and_in_subsets) {
  const StoredImages images = make({3, 25, 33});
  const Dataset dataset = Dataset::open({.files = {write("a.h5", images, {1, 10, 10})},
                                         .data = "images",
                                         .tiles = TileOptions{.size = 10, .edges = TileEdges::pad}});
  const std::vector<std::int64_t> wanted = {35, 0, 17, 17, 11};
  const Batch batch = SampleReader(dataset).read(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const SampleOrigin origin = dataset.origin(wanted[i]);
    const auto tile =
        images.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                      static_cast<std::uint64_t>(origin.x), 10, 10);
    EXPECT_EQ(std::memcmp(tile.data(), batch.data.bytes.get() + i * 100, 100), 0) << wanted[i];
  }
  DataLoader loader(dataset.subset(std::vector<std::int64_t>{3, 30, 31}), {.batch_size = 3, .preload = true});
  EXPECT_EQ(loader.next().value().indices, (std::vector<std::int64_t>{3, 30, 31}));
}

}  // namespace
}  // namespace h5feed::test
