// SPDX-License-Identifier: Apache-2.0
// Headers of encoded images, compared with what OpenCV decodes.
#include "images/image_header.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/files/image_bytes.hpp"
#include "support/files/image_file.hpp"

namespace h5feed::test {
namespace {

Bytes encoded_with(const cv::Mat& image, const std::string& extension, const std::vector<int>& options) {
  std::vector<unsigned char> bytes;
  cv::imencode(extension, image, bytes, options);
  const auto span = std::as_bytes(std::span(bytes));
  return {span.begin(), span.end()};
}

TEST(ImageHeader, tells_the_size_and_the_channels_that_opencv_decodes) {
  std::vector<Bytes> images = {palette_png(), gray_alpha_png(), deep_gray_alpha_png()};
  for (const int channels : {1, 3, 4}) {
    for (const int depth : {CV_8U, CV_16U})
      images.push_back(encoded(picture(33, 34, channels, 1, depth), ".png"));
    images.push_back(encoded(picture(33, 34, channels, 1), ".webp"));
  }
  for (const int channels : {1, 3}) {
    images.push_back(encoded(picture(33, 34, channels, 1), ".jpg"));
    images.push_back(with_orientation(images.back(), 1));
  }
  images.push_back(encoded(picture(33, 34, 3, 1), ".bmp"));
  images.push_back(encoded_with(picture(33, 34, 3, 1), ".webp", {cv::IMWRITE_WEBP_QUALITY, 101}));
  for (const int depth : {CV_8U, CV_16U}) {
    for (const int channels : {1, 3, 4})
      images.push_back(encoded(picture(33, 34, channels, 1, depth), ".tiff"));
    for (const int channels : {1, 3}) {
      images.push_back(encoded(picture(33, 34, channels, 1, depth), ".jp2"));
      images.push_back(encoded(picture(33, 34, channels, 1, depth), ".pnm"));
    }
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    const cv::Mat pixels = decoded(images[i], cv::IMREAD_UNCHANGED);
    const std::optional<ImageHeader> header = read_image_header(images[i]);
    ASSERT_TRUE(header) << i;
    EXPECT_EQ(header->height, static_cast<std::uint64_t>(pixels.rows)) << i;
    EXPECT_EQ(header->width, static_cast<std::uint64_t>(pixels.cols)) << i;
    EXPECT_GE(header->channels * header->value_bytes, pixels.elemSize()) << i;
    EXPECT_FALSE(header->may_turn) << i;
    EXPECT_EQ(header->pixels(), pixels.total()) << i;
  }
}

TEST(ImageHeader, tells_what_jpegs_take_while_they_are_decoded) {
  const cv::Mat image = picture(32, 40, 3, 1);
  EXPECT_EQ(read_image_header(encoded(image, ".jpg"))->work_bytes_per_pixel, 0U);
  // Two bytes for each coefficient: three a pixel with a quarter of the colors.
  const Bytes progressive = encoded_with(image, ".jpg", {cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  EXPECT_EQ(read_image_header(progressive)->work_bytes_per_pixel, 3U);
  for (unsigned orientation = 1; orientation <= 8; ++orientation) {
    const Bytes turned = with_orientation(encoded(image, ".jpg"), orientation);
    EXPECT_EQ(read_image_header(turned)->may_turn, orientation != 1) << orientation;
  }
  EXPECT_EQ(read_image_header(cmyk_jpeg())->channels, 3U);
}

// A TIFF of one directory, whose entries are SHORTs (TIFF 6.0, section 2).
Bytes tiff_of(const std::vector<std::pair<std::uint16_t, std::uint16_t>>& entries, bool big) {
  Bytes bytes;
  const auto add = [&](std::uint64_t value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> 8 * i));
  };
  const std::size_t wide = big ? 8 : 4;
  add(0x4949, 2);
  add(big ? 43 : 42, 2);
  if (big) add(8, 4);  // Bytes of an offset, and a reserved 0
  add(2 * wide, wide);
  add(entries.size(), big ? 8 : 2);
  for (const auto& [tag, value] : entries) {
    add(tag, 2);
    add(3, 2);
    add(1, wide);
    add(value, wide);
  }
  return bytes;
}

TEST(ImageHeader, of_tiffs_counts_tiles_that_are_larger_than_the_image) {
  for (const bool big : {false, true}) {
    const std::optional<ImageHeader> strips = read_image_header(tiff_of({{256, 40}, {257, 10}}, big));
    ASSERT_TRUE(strips);
    EXPECT_EQ(strips->pixels(), 400U);
    EXPECT_EQ(strips->work_bytes_per_pixel, 4U);
    EXPECT_FALSE(strips->may_turn);
    const std::optional<ImageHeader> tiles = read_image_header(
        tiff_of({{256, 40}, {257, 10}, {258, 16}, {277, 3}, {322, 100}, {323, 101}, {274, 6}}, big));
    ASSERT_TRUE(tiles);
    EXPECT_EQ(tiles->channels * tiles->value_bytes, 6U);
    EXPECT_EQ(tiles->work_bytes_per_pixel, 152U);  // 10,100 pixels of 6 bytes for 400
    EXPECT_TRUE(tiles->may_turn);
    EXPECT_EQ(read_image_header(tiff_of({{256, 40}, {257, 10}, {278, 2}}, big))->work_bytes_per_pixel, 1U);
    EXPECT_FALSE(read_image_header(tiff_of({{256, 40}}, big)));
  }
}

TEST(ImageHeader, of_tiffs_without_the_number_of_channels_counts_their_depths) {
  Bytes tiff = encoded(picture(33, 34, 3, 1, CV_16U), ".tiff");
  const Bytes samples_per_pixel = {std::byte{0x15}, std::byte{1}, std::byte{3},
                                   std::byte{0}};  // 277, a SHORT
  const auto entry =
      std::search(tiff.begin(), tiff.end(), samples_per_pixel.begin(), samples_per_pixel.end());
  ASSERT_NE(entry, tiff.end());
  entry[0] = entry[1] = std::byte{0xff};
  const cv::Mat pixels = decoded(tiff, cv::IMREAD_UNCHANGED);
  ASSERT_EQ(pixels.elemSize(), 6U);
  const std::optional<ImageHeader> header = read_image_header(tiff);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->channels * header->value_bytes, 6U);
}

TEST(ImageHeader, of_bitmaps_has_any_size_that_opencv_takes) {
  const auto bitmap = [](std::size_t size, std::size_t bytes_of_side, std::uint32_t width,
                         std::uint32_t height) {
    Bytes bytes(14 + size + 20);
    const auto put = [&](std::size_t at, std::size_t count, std::uint64_t value) {
      for (std::size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<std::byte>(value >> 8 * i);
    };
    bytes[0] = std::byte{'B'};
    bytes[1] = std::byte{'M'};
    put(14, 4, size);
    put(18, bytes_of_side, width);
    put(18 + bytes_of_side, bytes_of_side, height);
    return read_image_header(bytes);
  };
  EXPECT_EQ(bitmap(12, 2, 3000, 2000)->pixels(), 6'000'000U);
  for (const std::size_t size : {36U, 40U, 108U})
    EXPECT_EQ(bitmap(size, 4, 3000, 0xFFFFFFFE)->pixels(), 6000U) << "rows from the top";
  EXPECT_FALSE(bitmap(20, 4, 3, 2));
}

TEST(ImageHeader, of_webp_is_found_without_chunks) {
  const cv::Mat image = picture(33, 40, 3, 1);
  for (const int quality : {80, 101}) {  // 101: lossless
    const Bytes whole = encoded_with(image, ".webp", {cv::IMWRITE_WEBP_QUALITY, quality});
    for (const std::ptrdiff_t cut : {0, 12, 20}) {  // RIFF and WEBP, and then the head of the chunk
      const Bytes bytes(whole.begin() + cut, whole.end());
      const std::optional<ImageHeader> header = read_image_header(bytes);
      ASSERT_TRUE(header) << quality << ' ' << cut;
      EXPECT_EQ(header->height, 33U);
      EXPECT_EQ(header->width, 40U);
      // OpenCV does not find a lossy stream by its first 32 bytes.
      const bool taken = cut < 20 || quality > 100;
      EXPECT_EQ(decoded(bytes, cv::IMREAD_COLOR).rows, taken ? 33 : 0) << quality << ' ' << cut;
    }
  }
}

TEST(ImageHeader, of_jpeg_2000_counts_its_tiles) {
  const Bytes one = encoded(picture(64, 64, 3, 1), ".jp2");
  EXPECT_EQ(read_image_header(one)->work_bytes_per_pixel, 18U + 3U);
  const std::string_view mark = "\xFF\x4F\xFF\x51";
  Bytes many = one;
  const auto bytes_of_mark = std::as_bytes(std::span(mark));
  const auto segment = std::search(many.begin(), many.end(), bytes_of_mark.begin(), bytes_of_mark.end()) + 4;
  for (std::ptrdiff_t i = 20; i < 28; ++i)
    segment[i] = std::byte{i % 4 == 3 ? std::uint8_t{1} : std::uint8_t{0}};
  EXPECT_EQ(read_image_header(many)->work_bytes_per_pixel, 18U + 6 * 1024 + 3 * 1100)
      << "a tile for each pixel";
}

TEST(ImageHeader, of_portable_pixmaps_may_have_comments_and_bits) {
  const auto header = [](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return read_image_header(bytes);
  };
  EXPECT_EQ(header("P3 # red\n2\t1 # two wide\n65535\n")->value_bytes, 2U);
  EXPECT_EQ(header("P4\n9 300\n")->pixels(), 2700U);
  EXPECT_EQ(header("P4 9-300-")->pixels(), 2700U) << "any character ends a number";
  EXPECT_EQ(header("P5 9 9P1999 ")->value_bytes, 2U);
  EXPECT_FALSE(header("P6\n# never ends"));
  EXPECT_EQ(header("P4 #\r32768 32767 #\n1 1 ")->pixels(), 32768U * 32767U) << "as OpenCV ends a comment";
  EXPECT_EQ(header(std::string_view("P4 #\0\n9 300 ", 13))->pixels(), 2700U);
  EXPECT_FALSE(header("P5 0 7 255\n"));
  EXPECT_EQ(header("P5 99999999999999999999 2 255\n")->width, 0xFFFFFFFFU);
}

TEST(ImageHeader, of_any_bytes_is_read_within_them) {
  const cv::Mat image = picture(32, 40, 3, 1);
  for (const char* const extension : {".jpg", ".png", ".webp", ".bmp", ".tiff", ".jp2", ".pnm"}) {
    const Bytes whole = encoded(image, extension);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // A vector of its own, so that AddressSanitizer sees reads beyond the end.
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      read_image_header(cut);
    }
    for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 300); ++at) {
      Bytes damaged = whole;
      damaged[at] = ~damaged[at];
      read_image_header(damaged);
    }
  }
  EXPECT_FALSE(read_image_header({}));
  EXPECT_FALSE(read_image_header(Bytes(100)));
  const ImageHeader huge{.height = ~std::uint64_t{0}, .width = ~std::uint64_t{0}};
  EXPECT_EQ(huge.pixels(), std::uint64_t{1} << 50);
  const ImageHeader layered{.height = 1U << 20, .width = 1U << 20, .work_bytes_per_pixel = ~std::uint64_t{0}};
  EXPECT_EQ(layered.work_bytes(), std::uint64_t{1} << 60);
}

// Memory is counted by the header. H5FEED_TEST_SEED and H5FEED_TEST_DAMAGES choose other images and more of
// them.
TEST(ImageHeader, of_damaged_images_claims_all_that_opencv_decodes) {
  const auto number = [](const char* name, unsigned otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? static_cast<unsigned>(std::stoul(text)) : otherwise;
  };
  constexpr std::uint64_t kMostPixels = 1 << 20;
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  std::mt19937 random(number("H5FEED_TEST_SEED", 1));
  const unsigned damages = number("H5FEED_TEST_DAMAGES", 300);
  int images = 0;
  for (const char* const extension : {".jpg", ".png", ".webp", ".bmp", ".tiff", ".jp2", ".ppm"}) {
    const Bytes whole = encoded(picture(32, 40, 3, 1), extension);
    for (unsigned i = 0; i < damages; ++i) {
      Bytes damaged = whole;
      for (auto changes = 1 + random() % 3; changes > 0; --changes)
        damaged[random() % damaged.size()] = static_cast<std::byte>(random());
      const std::optional<ImageHeader> header = read_image_header(damaged);
      if (!header || header->pixels() > kMostPixels) continue;
      cv::Mat pixels;
      try {
        pixels = decoded(damaged, cv::IMREAD_UNCHANGED);
      } catch (const cv::Exception&) {
        // Refused: right.
      }
      images += !pixels.empty();
      EXPECT_LE(pixels.total(), header->pixels()) << extension << ' ' << i;
      EXPECT_LE(pixels.total() * pixels.elemSize(), header->pixels() * header->channels * header->value_bytes)
          << extension << ' ' << i;
    }
  }
  EXPECT_GT(images, 0);
}

}  // namespace
}  // namespace h5feed::test
