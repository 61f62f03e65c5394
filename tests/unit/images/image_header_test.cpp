// SPDX-License-Identifier: Apache-2.0
// Headers of encoded images, compared with what OpenCV decodes.
#include "images/image_header.hpp"

#include <gtest/gtest.h>

#include <opencv2/imgcodecs.hpp>
#include <string>
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
      images.push_back(encoded(picture(21, 34, channels, 1, depth), ".png"));
    images.push_back(encoded(picture(21, 34, channels, 1), ".webp"));
  }
  for (const int channels : {1, 3}) {
    images.push_back(encoded(picture(21, 34, channels, 1), ".jpg"));
    images.push_back(with_orientation(images.back(), 1));
  }
  images.push_back(encoded(picture(21, 34, 3, 1), ".bmp"));
  images.push_back(encoded_with(picture(21, 34, 3, 1), ".webp", {cv::IMWRITE_WEBP_QUALITY, 101}));
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
  const cv::Mat image = picture(24, 40, 3, 1);
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

TEST(ImageHeader, of_any_bytes_is_read_within_them) {
  const cv::Mat image = picture(24, 40, 3, 1);
  for (const char* const extension : {".jpg", ".png", ".webp", ".bmp"}) {
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
  EXPECT_FALSE(read_image_header(encoded(image, ".tiff")));
  const ImageHeader huge{.height = ~std::uint64_t{0}, .width = ~std::uint64_t{0}};
  EXPECT_EQ(huge.pixels(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace h5feed::test
