// SPDX-License-Identifier: Apache-2.0
// Values of patches: transforms and normalization of volumes, turned images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <span>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/files/volume_patches.hpp"

namespace h5feed::test {
namespace {

TEST_F(Patches, are_transformed_as_stored_and_normalized_channel_by_channel) {
  write_volumes({{9, 10, 11}, {12, 10, 11}}, {4, 5, 6}, 3, true);
  const Dataset dataset = Dataset::open(options_of({.size = {4, 5, 6}, .per_image = 6}, InputLayout::ndhwc));
  std::atomic<int> wrong = 0;
  DataLoader loader(dataset, {.batch_size = 4,
                              .num_workers = 2,
                              .transform =
                                  [&](const SampleView& view, const SampleKey&) {
                                    const std::vector<std::int64_t> shape(view.shape.begin(),
                                                                          view.shape.end());
                                    if (shape != std::vector<std::int64_t>{4, 5, 6, 3} || !view.channels_last)
                                      ++wrong;
                                    for (std::uint16_t& value : view.as<std::uint16_t>()) value /= 2;
                                  },
                              .normalize = Normalize{.mean = {0, 1, 2}, .std = {1, 2, 4}},
                              .provenance = true});
  while (const auto batch = loader.next()) {
    ASSERT_EQ(batch->data.shape, (std::vector<std::int64_t>{4, 3, 4, 5, 6}));
    const auto values = batch->data.as<float>();
    for (std::size_t i = 0; i < 4; ++i) {
      const auto stored = images[static_cast<std::size_t>(batch->origins[i].image)].patch(
          first_of(batch->origins[i]), {4, 5, 6});
      for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t voxel = 0; voxel < 120; ++voxel) {
          const auto halved = static_cast<float>(stored[c * 120 + voxel] / 2);
          const float expected = (halved - static_cast<float>(c)) / static_cast<float>(1U << c);
          ASSERT_FLOAT_EQ(values[(i * 3 + c) * 120 + voxel], expected);
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Patches, of_two_dimensions_are_turned_alike_in_every_way) {
  std::vector<std::uint8_t> numbers(2 * 9);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint8_t>(i % 9);
  {
    H5TestFile file(dir_ / "images.h5");
    for (const char* const name : {"images", "mask"}) {
      file.create({.path = name, .shape = {2, 3, 3}});
      file.write(name, std::as_bytes(std::span(numbers)));
    }
  }
  const auto ways_of = [&](TileTurns turns, std::size_t size) {
    DataLoader loader(
        Dataset::open({.files = {dir_ / "images.h5"},
                       .data = "images",
                       .target = "mask",
                       .tiles = TileOptions{.size = static_cast<std::int64_t>(size), .turns = turns}}),
        {.batch_size = 64, .seed = 1});
    std::set<std::vector<int>> ways;
    for (int epoch = 0; epoch < 200; ++epoch) {
      const auto batch = loader.next();
      const auto values = batch->data.as<std::uint8_t>();
      const auto target = batch->target.as<std::int64_t>();
      EXPECT_TRUE(std::equal(values.begin(), values.end(), target.begin()));
      ways.insert(
          std::vector<int>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size * size)));
      EXPECT_FALSE(loader.next().has_value());
    }
    return ways.size();
  };
  EXPECT_EQ(ways_of(TileTurns::flips, 3), 4u);
  EXPECT_EQ(ways_of(TileTurns::planar, 3), 8u);
  EXPECT_EQ(ways_of(TileTurns::all, 3), 8u);
  EXPECT_EQ(ways_of(TileTurns::none, 3), 1u);
}

TEST_F(Patches, of_a_volume_stay_together_when_the_dataset_is_split) {
  write_volumes({{8, 8, 8}, {12, 8, 8}, {8, 16, 8}, {8, 8, 24}}, {4, 4, 4});
  const Dataset dataset = Dataset::open(options_of({.size = {4, 4, 4}}));
  for (const SplitBy by : {SplitBy::automatic, SplitBy::part}) {
    std::map<std::int64_t, std::size_t> part_of_image;
    std::int64_t samples = 0;
    const std::vector<Dataset> parts = dataset.split({0.5, 0.25, 0.25}, 3, by);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::set<std::int64_t> in_part;
      DataLoader loader(parts[part], {.batch_size = 64, .provenance = true});
      while (const auto batch = loader.next()) {
        for (const SampleOrigin& origin : batch->origins) {
          in_part.insert(origin.image);
          EXPECT_EQ(part_of_image.emplace(origin.image, part).first->second, part);
        }
      }
      EXPECT_EQ(in_part.size(), part == 0 ? 2u : 1u);
      samples += parts[part].size();
    }
    EXPECT_EQ(samples, dataset.size());
  }
  const std::vector<Dataset> parts = dataset.split({0.75, 0.25}, 1);
  EXPECT_EQ(parts.front().split({0.5, 0.5}, 1).size(), 2u);
  EXPECT_EQ(refusal_of<OptionError>([&] {
              parts.back().split({0.5, 0.5}, 1);
            }),
            "part 1 of the split would have no samples: 0.5 of 1 image; use at least 1");
}

}  // namespace
}  // namespace h5feed::test
