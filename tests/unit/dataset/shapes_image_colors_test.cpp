// SPDX-License-Identifier: Apache-2.0
// Channels, bits and orientation of encoded images, against known pixels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <span>

#include "support/files/image_bytes.hpp"
#include "support/files/image_file.hpp"
#include "support/loaders/loaded_rows.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;

TEST_F(Images, have_their_channels_as_the_option_says) {
  const cv::Mat image = picture(6, 5, 3, 4);
  write({encoded(image, ".png")});
  EXPECT_EQ(first_difference(open({.color = ImageColor::rgb}), planes(image)), "");
  EXPECT_EQ(first_difference(open({.color = ImageColor::bgr}), planes(image, false)), "");
  EXPECT_EQ(first_difference(open({.color = ImageColor::unchanged}), planes(image)), "");
  const Dataset as_gray = open({.color = ImageColor::gray});
  EXPECT_THAT(as_gray.sample_shape(), ElementsAre(1, 6, 5));
  EXPECT_EQ(first_difference(as_gray, planes(decoded(encoded(image, ".png"), cv::IMREAD_GRAYSCALE))), "");
}

TEST_F(Images, in_gray_get_three_equal_channels) {
  const cv::Mat image = picture(6, 5, 1, 4);
  write({encoded(image, ".png")});
  const Bytes plane = planes(image);
  Bytes three;
  for (int i = 0; i < 3; ++i) three.insert(three.end(), plane.begin(), plane.end());
  EXPECT_EQ(first_difference(open(), three), "");
  EXPECT_EQ(first_difference(open({.color = ImageColor::unchanged}), plane), "");
}

TEST_F(Images, with_alpha_lose_it_unless_unchanged) {
  const cv::Mat image = picture(6, 5, 4, 4);
  write({encoded(image, ".png")});
  cv::Mat without;
  cv::cvtColor(image, without, cv::COLOR_BGRA2BGR);
  EXPECT_EQ(first_difference(open(), planes(without)), "");
  const Dataset dataset = open({.color = ImageColor::unchanged});
  EXPECT_THAT(dataset.sample_shape(), ElementsAre(4, 6, 5));
  EXPECT_EQ(first_difference(dataset, planes(image)), "");
}

TEST_F(Images, of_16_bits_are_cut_to_8_unless_unchanged) {
  const cv::Mat image = picture(6, 5, 3, 4, CV_16U);
  write({encoded(image, ".png")});
  cv::Mat upper(image.size(), CV_8UC3);
  std::transform(
      image.begin<cv::Vec3w>(), image.end<cv::Vec3w>(), upper.begin<cv::Vec3b>(), [](const cv::Vec3w& v) {
        return cv::Vec3b(static_cast<std::uint8_t>(v[0] >> 8), static_cast<std::uint8_t>(v[1] >> 8),
                         static_cast<std::uint8_t>(v[2] >> 8));
      });
  EXPECT_EQ(first_difference(open(), planes(upper)), "");
  const Dataset dataset = open({.color = ImageColor::unchanged});
  EXPECT_EQ(dataset.dtype(), DType::u16);
  EXPECT_EQ(first_difference(dataset, planes(image)), "");
}

TEST_F(Images, with_a_palette_have_its_colors) {
  write({test::palette_png()});
  const unsigned char expected[] = {255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255};
  const auto bytes = std::as_bytes(std::span(expected));
  EXPECT_EQ(first_difference(open(), {bytes.begin(), bytes.end()}), "");
}

TEST_F(Images, in_cmyk_become_rgb) {
  write({test::cmyk_jpeg()});
  const test::LoadedRows rows = test::load_rows(open(), {});
  const Bytes& pixels = rows.data.at(0);
  ASSERT_EQ(pixels.size(), 3 * 64u);
  // (255 − C)(255 − K) / 255, and so on, to within OpenCV's and JPEG's rounding.
  EXPECT_NEAR(std::to_integer<int>(pixels[0]), 191, 2);
  EXPECT_NEAR(std::to_integer<int>(pixels[64]), 95, 2);
  EXPECT_NEAR(std::to_integer<int>(pixels[128]), 0, 2);
}

// Whatever is asked for: a fourth channel of ink is none of alpha.
TEST_F(Images, in_cmyk_of_photoshop_are_converted_for_every_color) {
  write({test::ycck_jpeg()});
  using Pixel = std::array<int, 3>;
  const Pixel expected[] = {{255, 255, 255}, {0, 255, 255}, {191, 0, 191}, {127, 127, 0}};
  const auto check = [&](ImageColor color, std::array<std::size_t, 3> order) {
    const Dataset dataset = open({.color = color});
    ASSERT_THAT(dataset.sample_shape(), ElementsAre(3, 16, 16));
    const Bytes pixels = test::load_rows(dataset, {}).data.at(0);
    for (std::size_t quarter = 0; quarter < 4; ++quarter) {
      const std::size_t middle = (quarter / 2 * 8 + 4) * 16 + quarter % 2 * 8 + 4;
      for (std::size_t channel = 0; channel < 3; ++channel) {
        EXPECT_NEAR(std::to_integer<int>(pixels[channel * 256 + middle]), expected[quarter][order[channel]],
                    2)
            << quarter << ", " << channel;
      }
    }
  };
  check(ImageColor::rgb, {0, 1, 2});
  check(ImageColor::bgr, {2, 1, 0});
  check(ImageColor::unchanged, {0, 1, 2});
  const Dataset gray = open({.color = ImageColor::gray});
  EXPECT_THAT(gray.sample_shape(), ElementsAre(1, 16, 16));
  const Bytes pixels = test::load_rows(gray, {}).data.at(0);
  EXPECT_NEAR(std::to_integer<int>(pixels[4 * 16 + 4]), 255, 2);
  // 0.299 R + 0.587 G + 0.114 B
  EXPECT_NEAR(std::to_integer<int>(pixels[4 * 16 + 12]), 179, 2);
}

TEST_F(Images, in_gray_with_alpha_have_two_channels_where_they_are_left_unchanged) {
  write({test::gray_alpha_png()});
  const auto bytes = [](std::initializer_list<unsigned> values) {
    Bytes list;
    for (const unsigned value : values) list.push_back(static_cast<std::byte>(value));
    return list;
  };
  const Dataset dataset = open({.color = ImageColor::unchanged});
  EXPECT_THAT(dataset.sample_shape(), ElementsAre(2, 2, 2));
  EXPECT_EQ(first_difference(dataset, bytes({10, 20, 30, 40, 255, 128, 0, 1})), "");
  EXPECT_EQ(first_difference(open(), bytes({10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40})), "");
  EXPECT_EQ(first_difference(open({.color = ImageColor::gray}), bytes({10, 20, 30, 40})), "");
  const Dataset scaled = open({.height = 4, .width = 6, .color = ImageColor::unchanged});
  EXPECT_THAT(scaled.sample_shape(), ElementsAre(2, 4, 6));
  test::load_rows(scaled, {});
  write({test::deep_gray_alpha_png()});
  const Dataset deep = open({.color = ImageColor::unchanged});
  EXPECT_EQ(deep.dtype(), DType::u16);
  const std::uint16_t values[] = {266, 532, 798, 1064, 65535, 32768, 0, 1};
  const auto expected = std::as_bytes(std::span(values));
  EXPECT_EQ(first_difference(deep, {expected.begin(), expected.end()}), "");
}

TEST_F(Images, are_turned_as_exif_says) {
  const Bytes jpeg = encoded(picture(16, 24, 3, 7), ".jpg");
  const cv::Mat upright = decoded(jpeg);
  // EXIF 2.3, tag 0x0112: where row 0 and column 0 are.
  const auto turned = [&](unsigned orientation) {
    cv::Mat result = upright.clone();
    if (orientation >= 5) cv::transpose(upright, result);
    if (orientation == 2 || orientation == 6) cv::flip(result, result, 1);
    if (orientation == 3 || orientation == 7) cv::flip(result, result, -1);
    if (orientation == 4 || orientation == 8) cv::flip(result, result, 0);
    return result;
  };
  for (unsigned orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    write({test::with_orientation(jpeg, orientation)});
    EXPECT_EQ(first_difference(open(), planes(turned(orientation))), "");
    EXPECT_EQ(first_difference(open({.color = ImageColor::unchanged}), planes(upright)), "");
  }
}

}  // namespace
}  // namespace h5feed::test
