// SPDX-License-Identifier: Apache-2.0
// output_dtype, output_layout and augment on the CPU: the right values at the right places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/float_bits.hpp"
#include "flow/values/augmentation.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kChannels = 3, kHeight = 6, kWidth = 5;

// Pixel (y, x) of channel c as stored, 0 outside of the image.
std::uint8_t stored(const SampleSet& set, std::int64_t sample, std::int64_t c, std::int64_t y,
                    std::int64_t x) {
  if (y < 0 || y >= kHeight || x < 0 || x >= kWidth) return 0;
  return std::to_integer<std::uint8_t>(set.sample(sample)[(y * kWidth + x) * kChannels + c]);
}

TEST(OutputDtype, casts_without_normalize_and_rounds_once_with_it) {
  const SampleSet set(rgb_set(DType::u8, 7));
  const Dataset dataset = open(set);
  const auto first = [&](DataLoaderOptions options) {
    options.batch_size = 4;
    DataLoader loader(dataset, options);
    return *loader.next();
  };
  const Batch plain = first({.output_dtype = DType::f32});
  EXPECT_EQ(plain.data.as<float>()[1], static_cast<float>(stored(set, 0, 0, 0, 1)));
  const Batch half = first({.normalize = Normalize{.mean = {0.3}, .std = {0.2}}, .output_dtype = DType::f16});
  EXPECT_EQ(half.data.dtype, DType::f16);
  const double exact = (stored(set, 0, 0, 0, 1) * (1.0 / 255) - 0.3) / 0.2;
  F16 value;
  std::memcpy(&value, half.data.bytes.get() + 2, 2);
  EXPECT_NEAR(static_cast<double>(to_float(value)), exact, std::fabs(exact) * 0x1p-11);
  EXPECT_EQ(first({.output_dtype = DType::bf16}).data.dtype, DType::bf16);
  const Batch doubles = first({.output_dtype = DType::f64});
  EXPECT_EQ(doubles.data.as<double>()[1], stored(set, 0, 0, 0, 1));
  EXPECT_EQ(first({.output_dtype = DType::u8}).data.dtype, DType::u8) << "as stored";
}

TEST(OutputDtype, refuses_types_that_are_not_made) {
  const SampleSet set(rgb_set(DType::u8, 7));
  EXPECT_THAT(refusal<OptionError>(open(set), {.output_dtype = DType::i32}),
              HasSubstr("output_dtype must be f32, f16, bf16 or f64, or the stored type; got i32"));
  EXPECT_THAT(refusal<OptionError>(open(set), {.normalize = Normalize{}, .output_dtype = DType::u8}),
              HasSubstr("with normalize or unit_range; got u8"));
}

TEST(OutputLayout, of_channels_last_keeps_the_shape_and_says_so_by_strides) {
  const SampleSet set(rgb_set(DType::u8, 7));
  DataLoader loader(open(set), {.batch_size = 2, .output_layout = OutputLayout::channels_last});
  const Batch batch = *loader.next();
  EXPECT_THAT(batch.data.shape, ElementsAre(2, 3, 6, 5));
  EXPECT_THAT(batch.data.strides, ElementsAre(90, 1, 15, 3));
  EXPECT_EQ(std::memcmp(batch.data.bytes.get(), set.sample(0), 2 * set.sample_bytes()), 0)
      << "it is how the file has them";
}

TEST(OutputLayout, and_augment_are_refused_for_data_that_is_no_image) {
  const SampleSet set({.shape = {20, 8}, .chunk_shape = {5, 8}});
  const Dataset tokens = Dataset::open(
      {.files = {set.path()}, .data = "images", .target = "labels", .input_layout = InputLayout::none});
  EXPECT_THAT(refusal<OptionError>(tokens, {.output_layout = OutputLayout::channels_last}),
              HasSubstr("output_layout = channels_last is for images"));
  EXPECT_THAT(refusal<OptionError>(tokens, {.augment = Augment{}}), HasSubstr("augment is for images"));
}

struct AugmentCase {
  const char* name;
  Augment augment;
  OutputLayout layout = OutputLayout::nchw;
};

class Augmented : public testing::TestWithParam<AugmentCase> {};

TEST_P(Augmented, samples_are_the_stored_ones_moved_as_the_transforms_say) {
  const SampleSet set(rgb_set(DType::u8, 7));
  DataLoaderOptions options{.batch_size = 9, .shuffle = true, .seed = 3, .num_workers = 2};
  options.normalize = Normalize{.mean = {0.1, 0.2, 0.3}, .std = {0.5, 0.6, 0.7}};
  options.augment = GetParam().augment;
  options.output_layout = GetParam().layout;
  DataLoader loader(open(set), options);
  std::int64_t seen = 0;
  for (const Batch& batch : loader) {
    ASSERT_EQ(batch.transforms.size(), batch.indices.size());
    const std::int64_t height = batch.data.shape[2], width = batch.data.shape[3];
    const bool last = !batch.data.strides.empty();
    const auto values = batch.data.as<float>();
    for (std::int64_t n = 0; n < batch.size(); ++n, ++seen) {
      const SampleTransform t = batch.transforms[static_cast<std::size_t>(n)];
      for (std::int64_t c = 0; c < kChannels; ++c) {
        for (std::int64_t y = 0; y < height; ++y) {
          const std::int64_t from_y = t.crop_y + (t.vertical_flip != 0 ? height - 1 - y : y);
          for (std::int64_t x = 0; x < width; ++x) {
            const std::int64_t from = t.crop_x + (t.flip != 0 ? width - 1 - x : x);
            const std::uint8_t pixel =
                stored(set, batch.indices[static_cast<std::size_t>(n)], c, from_y, from);
            const auto channel = static_cast<std::size_t>(c);
            const auto expected = static_cast<float>(
                (pixel * (1.0 / 255) - options.normalize->mean[channel]) / options.normalize->std[channel]);
            const std::int64_t at = last ? ((n * height + y) * width + x) * kChannels + c
                                         : ((n * kChannels + c) * height + y) * width + x;
            ASSERT_EQ(values[static_cast<std::size_t>(at)], expected);
          }
        }
      }
    }
  }
  EXPECT_EQ(seen, 50);
}

TEST_P(Augmented, samples_are_the_same_for_any_workers_batch_size_and_world_size) {
  const SampleSet set(rgb_set(DType::u8, 7));
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 11};
  options.augment = GetParam().augment;
  options.output_layout = GetParam().layout;
  DataLoader alone(dataset, options);
  const auto expected = by_sample(rest_of_epoch(alone));
  ASSERT_EQ(expected.size(), 50u);
  for (const std::int64_t world_size : {1, 3}) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>> together;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      DataLoaderOptions other = options;
      other.batch_size = 5;
      other.num_workers = 2;
      other.rank = rank;
      other.world_size = world_size;
      DataLoader loader(dataset, other);
      together.merge(by_sample(rest_of_epoch(loader)));
    }
    EXPECT_TRUE(together == expected) << world_size;
  }
  const auto next_epoch = by_sample(rest_of_epoch(alone));
  EXPECT_FALSE(next_epoch == expected) << "another epoch, other crops";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Augmented,
    testing::Values(
        AugmentCase{"flip", {.horizontal_flip = 0.5}}, AugmentCase{"vertical_flip", {.vertical_flip = 0.5}},
        AugmentCase{"padded_crop", {.random_crop = Augment::RandomCrop{.padding = 2}}},
        AugmentCase{"small_crop",
                    {.horizontal_flip = 0.5, .random_crop = Augment::RandomCrop{.height = 4, .width = 3}}},
        AugmentCase{"large_crop_channels_last",
                    {.horizontal_flip = 0.5,
                     .vertical_flip = 0.5,
                     .random_crop = Augment::RandomCrop{.height = 8, .width = 7, .padding = 3}},
                    OutputLayout::channels_last}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST(Augmentation, reaches_every_place_of_the_window_and_both_sides) {
  const Augmentation augmentation({.horizontal_flip = 0.25,
                                   .vertical_flip = 0.25,
                                   .random_crop = Augment::RandomCrop{.height = 3, .width = 0, .padding = 1}},
                                  4, 5);
  std::map<int, int> rows, columns;
  int flipped = 0, vertically = 0, both = 0;
  constexpr int kDraws = 4000;
  for (int sample = 0; sample < kDraws; ++sample) {
    const SampleTransform t = augmentation.draw(7, 0, 0, sample);
    ++rows[t.crop_y];
    ++columns[t.crop_x];
    flipped += t.flip;
    vertically += t.vertical_flip;
    both += t.flip & t.vertical_flip;
  }
  EXPECT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows.begin()->first, -1);
  EXPECT_EQ(columns.size(), 3u);
  for (const auto& [place, count] : rows) EXPECT_NEAR(count, kDraws / 4, 150) << place;
  for (const auto& [place, count] : columns) EXPECT_NEAR(count, kDraws / 3, 150) << place;
  EXPECT_NEAR(flipped, kDraws / 4, 150);
  EXPECT_NEAR(vertically, kDraws / 4, 150);
  EXPECT_NEAR(both, kDraws / 16, 80) << "independently";
}

TEST(Augmentation, flips_every_sample_with_a_probability_of_1) {
  const Augmentation augmentation({.horizontal_flip = 1, .vertical_flip = 1}, 8, 8);
  for (int sample = 0; sample < 100; ++sample) {
    EXPECT_EQ(augmentation.draw(1, 2, 3, sample).flip, 1);
    EXPECT_EQ(augmentation.draw(1, 2, 3, sample).vertical_flip, 1);
  }
}

TEST(Augmentation, depends_on_seed_epoch_repeat_and_sample) {
  const Augmentation augmentation(
      {.horizontal_flip = 0.5, .random_crop = Augment::RandomCrop{.padding = 1000}}, 8, 8);
  const SampleTransform t = augmentation.draw(1, 2, 3, 4);
  EXPECT_EQ(augmentation.draw(1, 2, 3, 4), t);
  EXPECT_NE(augmentation.draw(9, 2, 3, 4), t);
  EXPECT_NE(augmentation.draw(1, 9, 3, 4), t);
  EXPECT_NE(augmentation.draw(1, 2, 9, 4), t);
  EXPECT_NE(augmentation.draw(1, 2, 3, 9), t);
}

TEST(Augmentation, refuses_what_cannot_be) {
  const auto refused = [](const Augment& augment) {
    return refusal_of<OptionError>([&] { Augmentation(augment, 4, 5); });
  };
  EXPECT_THAT(refused({.horizontal_flip = 1.5}), HasSubstr("a probability, 0 to 1; got 1.5"));
  EXPECT_THAT(refused({.horizontal_flip = std::nan("")}), HasSubstr("a probability"));
  EXPECT_THAT(refused({.vertical_flip = -0.1}), HasSubstr("augment.vertical_flip is a probability, 0 to 1"));
  EXPECT_THAT(refused({.random_crop = Augment::RandomCrop{.height = 7, .padding = 1}}),
              HasSubstr("random_crop.height must be 0 to 6 (the image has 4, padding 1); got 7"));
  EXPECT_THAT(refused({.random_crop = Augment::RandomCrop{.width = -1}}), HasSubstr("random_crop.width"));
  EXPECT_THAT(refused({.random_crop = Augment::RandomCrop{.padding = -1}}),
              HasSubstr("padding must be 0 to"));
}

}  // namespace
}  // namespace h5feed::test
