// SPDX-License-Identifier: Apache-2.0
// Augment::random_resized_crop: the windows that it draws, and the values of the scaled images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/float_bits.hpp"
#include "batch/row_kernel.hpp"
#include "flow/values/augmentation.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

struct Size {
  std::int64_t height = 0, width = 0;
};

// Returns the weights of the source pixels of one output pixel, which sum to 1: PIL's filter in float64.
std::vector<double> weights_of(std::int64_t window, std::int64_t output, std::int64_t at) {
  const double scale = static_cast<double>(window) / static_cast<double>(output);
  const double support = std::max(1.0, scale);
  const double centre = (static_cast<double>(at) + 0.5) * scale;
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t i = 0; i < window; ++i) {
    weights.push_back(std::max(0.0, 1 - std::fabs(static_cast<double>(i) + 0.5 - centre) / support));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Returns the scaled value of an output pixel in float64. `value(y, x)` is that of a source pixel.
template <typename Value>
double reference(const SampleTransform& t, const Size& out, std::int64_t y, std::int64_t x,
                 const Value& value) {
  if (t.vertical_flip != 0) y = out.height - 1 - y;
  if (t.flip != 0) x = out.width - 1 - x;
  const std::vector<double> rows = weights_of(t.crop_height, out.height, y);
  const std::vector<double> columns = weights_of(t.crop_width, out.width, x);
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t k = 0; k < columns.size(); ++k) {
      if (rows[i] > 0 && columns[k] > 0)
        sum += rows[i] * columns[k] *
               value(t.crop_y + static_cast<std::int64_t>(i), t.crop_x + static_cast<std::int64_t>(k));
    }
  }
  return sum;
}

constexpr std::int64_t kImageChannels = 3;
constexpr Size kImage = {19, 23};

const std::vector<SampleTransform>& transforms() {
  static const std::vector<SampleTransform> all = {
      {.crop_height = 19, .crop_width = 23},
      {.crop_y = 4, .crop_x = 7, .crop_height = 1, .crop_width = 1},
      {.crop_y = 2, .crop_x = 3, .flip = 1, .crop_height = 16, .crop_width = 9},
      {.crop_y = 18, .crop_x = 0, .vertical_flip = 1, .crop_height = 1, .crop_width = 23},
      {.crop_y = 0, .crop_x = 20, .flip = 1, .vertical_flip = 1, .crop_height = 13, .crop_width = 3}};
  return all;
}

template <typename T>
void expect_reference(DType dtype, bool in_last, bool out_last, const Size& out) {
  std::mt19937 random(static_cast<unsigned>(out.height));
  std::vector<T> image(static_cast<std::size_t>(kImageChannels * kImage.height * kImage.width));
  for (T& value : image) {
    if constexpr (std::is_floating_point_v<T>) {
      value = std::uniform_real_distribution<T>(-3, 5)(random);
    } else {
      value = static_cast<T>(random());
    }
  }
  const auto at = [](std::int64_t c, std::int64_t y, std::int64_t x, const Size& size, bool last) {
    return static_cast<std::size_t>(last ? (y * size.width + x) * kImageChannels + c
                                         : (c * size.height + y) * size.width + x);
  };
  RowKernelSpec spec;
  spec.from = spec.to = dtype;
  spec.channels = kImageChannels;
  spec.pixels = static_cast<std::uint64_t>(kImage.height * kImage.width);
  spec.channels_last = in_last;
  spec.to_channels_last = out_last;
  spec.crop = CropSizes{static_cast<std::uint64_t>(kImage.height), static_cast<std::uint64_t>(kImage.width),
                        static_cast<std::uint64_t>(out.height), static_cast<std::uint64_t>(out.width), true};
  const auto kernel = make_row_kernel(spec);
  std::vector<T> scaled(static_cast<std::size_t>(kImageChannels * out.height * out.width));
  for (const SampleTransform& t : transforms()) {
    kernel->run(reinterpret_cast<const std::byte*>(image.data()), reinterpret_cast<std::byte*>(scaled.data()),
                t);
    for (std::int64_t c = 0; c < kImageChannels; ++c) {
      for (std::int64_t y = 0; y < out.height; ++y) {
        for (std::int64_t x = 0; x < out.width; ++x) {
          const double expected = reference(t, out, y, x, [&](std::int64_t from_y, std::int64_t from_x) {
            return static_cast<double>(image[at(c, from_y, from_x, kImage, in_last)]);
          });
          const auto found = static_cast<double>(scaled[at(c, y, x, out, out_last)]);
          const double bound = std::is_floating_point_v<T> ? std::fabs(expected) * 1e-6 + 1e-6
                                                           : std::fabs(expected) * 1e-14 + 0.5 + 1e-6;
          ASSERT_NEAR(found, expected, bound)
              << c << " " << y << " " << x << ", window " << t.crop_height << " x " << t.crop_width;
        }
      }
    }
  }
}

TEST(ResizeKernel, scales_every_type_and_layout_as_float64_does) {
  for (const Size out : {Size{19, 23}, {7, 40}, {1, 1}, {31, 5}}) {
    for (const bool in_last : {false, true}) {
      for (const bool out_last : {false, true}) {
        expect_reference<std::uint8_t>(DType::u8, in_last, out_last, out);
        expect_reference<std::int8_t>(DType::i8, in_last, out_last, out);
        expect_reference<std::uint16_t>(DType::u16, in_last, out_last, out);
        expect_reference<std::int16_t>(DType::i16, in_last, out_last, out);
        expect_reference<std::int32_t>(DType::i32, in_last, out_last, out);
        expect_reference<std::uint32_t>(DType::u32, in_last, out_last, out);
        expect_reference<float>(DType::f32, in_last, out_last, out);
        expect_reference<double>(DType::f64, in_last, out_last, out);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ResizeKernel, leaves_a_window_of_the_size_of_the_output_as_it_is) {
  std::vector<std::uint8_t> image(4 * 5);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(13 * i);
  RowKernelSpec spec;
  spec.pixels = image.size();
  spec.crop = CropSizes{4, 5, 2, 3, true};
  std::vector<std::byte> out(6);
  make_row_kernel(spec)->run(reinterpret_cast<const std::byte*>(image.data()), out.data(),
                             {.crop_y = 1, .crop_x = 2, .crop_height = 2, .crop_width = 3});
  for (std::size_t y = 0; y < 2; ++y) {
    for (std::size_t x = 0; x < 3; ++x)
      EXPECT_EQ(static_cast<std::uint8_t>(out[3 * y + x]), image[5 * (y + 1) + x + 2]);
  }
}

TEST(RandomResizedCrop, draws_windows_of_the_scale_and_shape_asked_for) {
  const Augmentation augmentation({.random_resized_crop = Augment::RandomResizedCrop{.height = 10}}, 120,
                                  160);
  EXPECT_EQ(augmentation.sizes().out_height, 10u);
  EXPECT_EQ(augmentation.sizes().out_width, 160u);
  double least = 1, most = 0;
  constexpr int kDraws = 4000;
  for (int sample = 0; sample < kDraws; ++sample) {
    const SampleTransform t = augmentation.draw(3, 1, 0, sample);
    ASSERT_GE(t.crop_y, 0);
    ASSERT_GE(t.crop_x, 0);
    ASSERT_LE(t.crop_y + t.crop_height, 120);
    ASSERT_LE(t.crop_x + t.crop_width, 160);
    const double area = static_cast<double>(t.crop_height) * t.crop_width / (120 * 160);
    const double ratio = static_cast<double>(t.crop_width) / t.crop_height;
    ASSERT_GT(ratio, 0.72);
    ASSERT_LT(ratio, 1.39);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(least, 0.07);
  EXPECT_GT(most, 0.9);
}

TEST(RandomResizedCrop, draws_areas_evenly_where_all_windows_fit) {
  const Augment::RandomResizedCrop crop{.min_ratio = 4.0 / 3, .max_ratio = 4.0 / 3};
  const Augmentation augmentation({.random_resized_crop = crop}, 120, 160);
  double areas = 0;
  constexpr int kDraws = 4000;
  for (int sample = 0; sample < kDraws; ++sample) {
    const SampleTransform t = augmentation.draw(3, 1, 0, sample);
    areas += static_cast<double>(t.crop_height) * t.crop_width / (120 * 160);
  }
  EXPECT_NEAR(areas / kDraws, 0.54, 0.015);
}

TEST(RandomResizedCrop, takes_the_largest_window_of_an_allowed_shape_where_none_fits) {
  const Augmentation wide({.random_resized_crop = Augment::RandomResizedCrop{.min_scale = 1}}, 10, 100);
  const SampleTransform t = wide.draw(1, 2, 3, 4);
  EXPECT_EQ(t.crop_height, 10);
  EXPECT_EQ(t.crop_width, 13);
  EXPECT_EQ(t.crop_y, 0);
  EXPECT_EQ(t.crop_x, 43);
}

TEST(RandomResizedCrop, refuses_what_cannot_be) {
  const auto refused = [](const Augment::RandomResizedCrop& crop) {
    return refusal_of<OptionError>([&] { Augmentation({.random_resized_crop = crop}, 4, 5); });
  };
  EXPECT_THAT(refused({.height = -1}), HasSubstr("augment.random_resized_crop.height must be 0 to"));
  EXPECT_THAT(refused({.height = 1 << 29}), HasSubstr("must be 0 to 536870911; got 536870912"));
  EXPECT_EQ(refused({.height = (1 << 29) - 1}), "accepted");
  EXPECT_THAT(refused({.min_scale = 0}), HasSubstr("min_scale and max_scale must be above 0"));
  EXPECT_THAT(refused({.max_scale = 1.5}), HasSubstr("got 0.08 and 1.5"));
  EXPECT_THAT(refused({.min_scale = std::nan("")}), HasSubstr("min_scale"));
  EXPECT_THAT(refused({.min_ratio = 2, .max_ratio = 1}), HasSubstr("min_ratio and max_ratio"));
  EXPECT_THAT(refused({.max_ratio = std::numeric_limits<double>::infinity()}), HasSubstr("finite"));
  EXPECT_THAT(refusal_of<OptionError>([] {
                Augmentation({.random_crop = Augment::RandomCrop{},
                              .random_resized_crop = Augment::RandomResizedCrop{}},
                             4, 5);
              }),
              HasSubstr("exclude each other"));
  EXPECT_THAT(refusal_of<OptionError>([] {
                Augmentation({.random_resized_crop = Augment::RandomResizedCrop{.height = 1, .width = 1}},
                             1 << 20, 1 << 20);
              }),
              HasSubstr("does not scale 1048576 x 1048576 pixels to 1 x 1"));
  const SampleSet set(rgb_set(DType::i64));
  DataLoaderOptions options{.batch_size = 5};
  options.augment = Augment{.random_resized_crop = Augment::RandomResizedCrop{}};
  EXPECT_THAT(refusal<OptionError>(open(set), options), HasSubstr("integers of up to 32 bits"));
}

TEST(RandomResizedCrop, of_a_loader_is_the_same_for_any_workers_and_is_reported) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 9};
  options.augment = Augment{.horizontal_flip = 0.5,
                            .vertical_flip = 0.5,
                            .random_resized_crop = Augment::RandomResizedCrop{.height = 4, .width = 7}};
  DataLoader alone(dataset, options);
  const auto expected = rest_of_epoch(alone);
  options.num_workers = 2;
  DataLoader loader(dataset, options);
  EXPECT_TRUE(rest_of_epoch(loader) == expected);
  for (const Delivery& delivery : expected) {
    for (std::size_t n = 0; n < delivery.indices.size(); ++n) {
      const SampleTransform& t = delivery.transforms[n];
      const std::byte* const stored = set.sample(delivery.indices[n]);
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t y = 0; y < 4; ++y) {
          for (std::int64_t x = 0; x < 7; ++x) {
            const double value = reference(t, {4, 7}, y, x, [&](std::int64_t from_y, std::int64_t from_x) {
              return static_cast<double>(stored[(from_y * 5 + from_x) * 3 + c]);
            });
            const std::size_t at =
                ((n * 3 + static_cast<std::size_t>(c)) * 4 + static_cast<std::size_t>(y)) * 7;
            ASSERT_NEAR(static_cast<double>(delivery.data[at + static_cast<std::size_t>(x)]), value,
                        0.500001);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::test
