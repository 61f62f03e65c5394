// SPDX-License-Identifier: Apache-2.0
// The n-th allocation of decoding an encoded image fails, for every n until it needs fewer. Not of WebP, TIFF
// and JPEG 2000: the libraries of these crash without memory (libwebp 1.2.4, libtiff 4.5.0, OpenJPEG 2.5.0).
#include <gtest/gtest.h>

#include <opencv2/imgcodecs.hpp>

#include "base/image_decoder.hpp"
#include "support/every_allocation.hpp"
#include "support/files/image_bytes.hpp"

namespace h5feed::test {
namespace {

class ImageAllocations : public testing::TestWithParam<const char*> {};

TEST_P(ImageAllocations, that_fail_end_in_bad_alloc) {
  const Bytes image = encoded(picture(60, 70, 3, 1), GetParam());
  for (const std::uint64_t side : {0U, 20U}) {
    SCOPED_TRACE(side);
    const auto decoder = make_image_decoder({.height = side, .width = side});
    const ImageExtent extent = decoder->extent_of(image);
    Bytes expected(extent.bytes());
    decoder->decode(image, extent, expected);
    Bytes out(extent.bytes());
    const std::int64_t failures = expect_result_or_bad_alloc([&] { decoder->decode(image, extent, out); },
                                                             [&] { return out == expected; });
    EXPECT_GT(failures, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ImageAllocations, testing::Values(".jpg", ".png", ".bmp", ".ppm"),
                         [](const auto& each) { return std::string(each.param + 1); });

}  // namespace
}  // namespace h5feed::test
