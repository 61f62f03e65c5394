// SPDX-License-Identifier: Apache-2.0
// Loading the image codecs, and JPEGs that libjpeg decodes without OpenCV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>
// After <cstdio>, which it needs and does not include.
#include <jpeglib.h>

#include "images/image_library.hpp"
#include "images/jpeg_pixels.hpp"
#include "support/case_step.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/image_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

std::string refusal_of_places(const std::vector<std::string>& places) {
  return test::refusal_of<Error>([&] { load_image_calls(places); });
}

TEST(ImageCodecs, that_are_missing_are_named_with_every_place_that_was_searched) {
  const test::TempDir dir;
  const std::string next_to_library = (dir / "h5feed_images.so").string();
  EXPECT_EQ(
      refusal_of_places({next_to_library, "no_such_images.so"}),
      "images need h5feed_images.so, which is not there (looked for " + next_to_library +
          ", no_such_images.so); install it with h5feed, put it next to the program, or set H5FEED_IMAGES to "
          "its path");
}

TEST(ImageCodecs, that_cannot_be_loaded_are_named_with_the_reason) {
  const test::TempDir dir;
  const std::string path = (dir / "h5feed_images.so").string();
  std::ofstream(path) << "no object";
  EXPECT_EQ(
      refusal_of_places({path}),
      "images need " + path + ", which cannot be loaded: " + path +
          ": file too short; install the libraries of OpenCV that it was built with, or build h5feed again");
}

TEST(ImageCodecs, of_another_version_are_refused) {
  EXPECT_EQ(refusal_of_places({OTHER_IMAGES_PATH}),
            "images need " OTHER_IMAGES_PATH
            ", but that file belongs to another version of h5feed; install the file that was "
            "built with this library, or set H5FEED_IMAGES to its path");
}

TEST(ImageCodecs, are_found_in_the_build_tree) {
  EXPECT_EQ(image_calls().version, kImageCallsVersion);
  EXPECT_EQ(&image_calls(), &image_calls());
}

// By libjpeg, for what cv::imencode cannot do: `horizontal` × `vertical` samples of luminance for one of
// color.
Bytes jpeg_of(const cv::Mat& image, int horizontal, int vertical) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(image.rows);
  info.image_width = static_cast<JDIMENSION>(image.cols);
  info.input_components = 3;
  info.in_color_space = JCS_EXT_BGR;
  jpeg_set_defaults(&info);
  info.comp_info[0].h_samp_factor = horizontal;
  info.comp_info[0].v_samp_factor = vertical;
  jpeg_start_compress(&info, TRUE);
  for (int row = 0; row < image.rows; ++row) {
    JSAMPROW pixels = const_cast<JSAMPROW>(image.ptr(row));
    jpeg_write_scanlines(&info, &pixels, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto bytes = std::as_bytes(std::span(buffer, size));
  Bytes result(bytes.begin(), bytes.end());
  std::free(buffer);
  return result;
}

std::vector<Bytes> plain_jpegs() {
  std::vector<Bytes> jpegs;
  for (const cv::Size& size : {cv::Size{1, 1}, {13, 7}, {31, 17}, {64, 48}, {100, 33}}) {
    const cv::Mat color = picture(size.height, size.width, 3, 7);
    jpegs.push_back(encoded(picture(size.height, size.width, 1, 8), ".jpg"));
    for (const auto& [horizontal, vertical] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}})
      jpegs.push_back(jpeg_of(color, horizontal, vertical));
    for (const std::vector<int>& options : {std::vector<int>{cv::IMWRITE_JPEG_QUALITY, 30},
                                            {cv::IMWRITE_JPEG_PROGRESSIVE, 1},
                                            {cv::IMWRITE_JPEG_RST_INTERVAL, 2}}) {
      std::vector<unsigned char> bytes;
      cv::imencode(".jpg", color, bytes, options);
      const auto span = std::as_bytes(std::span(bytes));
      jpegs.emplace_back(span.begin(), span.end());
    }
  }
  jpegs.push_back(with_orientation(jpegs.back(), 1));
  return jpegs;
}

// Returns whether it is decoded without OpenCV.
bool quick(const Bytes& jpeg) {
  Bytes pixels;
  return decode_jpeg(jpeg, JpegChannels::rgb, [&](int height, int width) {
    pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
    return pixels.data();
  });
}

class JpegPixels : public Images {
 protected:
  // Through a dataset, as they are and scaled.
  void expect_the_pixels_of_opencv(const Bytes& jpeg) {
    write({jpeg});
    const cv::Mat color = decoded(jpeg), gray = decoded(jpeg, cv::IMREAD_GRAYSCALE);
    EXPECT_EQ(first_difference(open({.color = ImageColor::rgb}), planes(color)), "");
    EXPECT_EQ(first_difference(open({.color = ImageColor::bgr}), planes(color, false)), "");
    EXPECT_EQ(first_difference(open({.color = ImageColor::gray}), planes(gray)), "");
    cv::Mat scaled;
    const bool shrinks = color.cols >= 9 && color.rows >= 5;
    cv::resize(color, scaled, {9, 5}, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
    EXPECT_EQ(first_difference(open({.height = 5, .width = 9}), planes(scaled)), "");
  }
};

TEST_F(JpegPixels, are_those_of_opencv_bit_for_bit) {
  const std::vector<Bytes> jpegs = plain_jpegs();
  for (std::size_t i = 0; i < jpegs.size(); i += kCaseStep) {
    EXPECT_TRUE(quick(jpegs[i]));
    expect_the_pixels_of_opencv(jpegs[i]);
  }
}

TEST_F(JpegPixels, that_are_turned_or_unusual_are_left_to_opencv) {
  const Bytes jpeg = encoded(picture(21, 30, 3, 5), ".jpg");
  std::vector<Bytes> others;
  for (const unsigned orientation : {0U, 2U, 3U, 6U, 8U, 9U, 255U})
    others.push_back(with_orientation(jpeg, orientation));
  Bytes two = with_orientation(with_orientation(jpeg, 6), 1);
  others.push_back(std::move(two));
  Bytes broken = with_orientation(jpeg, 1);
  broken[18] = std::byte{200};  // more entries in the directory than the segment holds
  others.push_back(std::move(broken));
  Bytes damaged = jpeg;
  std::fill(damaged.end() - 200, damaged.end() - 100, std::byte{0x5a});
  others.push_back(std::move(damaged));
  for (const Bytes& other : others) {
    EXPECT_FALSE(quick(other));
    expect_the_pixels_of_opencv(other);
  }
  EXPECT_FALSE(quick(test::cmyk_jpeg()));
  EXPECT_FALSE(quick(encoded(picture(3, 4, 3, 1), ".png")));
  EXPECT_FALSE(quick(Bytes(jpeg.begin(), jpeg.begin() + 100)));
}

}  // namespace
}  // namespace h5feed::test
