// SPDX-License-Identifier: Apache-2.0
// Builds encoded images, and datasets of them. What needs OpenCV is there if H5FEED_TEST_IMAGES is defined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#ifdef H5FEED_TEST_IMAGES
#include <opencv2/core.hpp>
#endif

#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {

#ifdef H5FEED_TEST_IMAGES
/// Returns a smooth picture with noise, in CV_8U or CV_16U; each `seed` gives another one.
cv::Mat picture(int height, int width, int channels, unsigned seed, int depth = CV_8U);

/// Encodes an image; `extension` is ".jpg" or ".png". Throws std::runtime_error if OpenCV cannot encode it.
Bytes encoded(const cv::Mat& image, const std::string& extension);

/// Returns pixels as loaders deliver them, channel after channel; with `from_bgr`, `image` has them as B, G,
/// R.
Bytes planes(const cv::Mat& image, bool from_bgr = true);
#endif

/// Returns `jpeg` with an EXIF orientation (1 … 8) inserted.
Bytes with_orientation(const Bytes& jpeg, unsigned orientation);

/// Returns a PNG of 2×2 pixels with a palette: red, green, blue, white.
Bytes palette_png();

/// Returns a PNG of 2×2 gray pixels (10, 20, 30, 40) with alpha (255, 128, 0, 1).
Bytes gray_alpha_png();

/// Returns a 16-bit PNG of 2×2 gray pixels (266, 532, 798, 1064) with alpha (65535, 32768, 0, 1).
Bytes deep_gray_alpha_png();

/// Returns a JPEG of 8×8 pixels in CMYK as Adobe writes it; every pixel has the inks 0, 128, 255, 64.
Bytes cmyk_jpeg();

/// Returns a JPEG of 16×16 pixels in YCCK, as Adobe's programs save CMYK. Its quarters, by rows from the
/// upper left, have the inks (0, 0, 0, 0), (255, 0, 0, 0), (0, 255, 0, 64) and (0, 0, 255, 128).
Bytes ycck_jpeg();

/// Storage of values of variable length.
struct RaggedStorage {
  std::uint64_t chunk = 0;  ///< values per chunk; 0: contiguous
};

/// Writes a dataset of shape (N) of variable-length uint8.
void write_ragged(const H5TestFile& file, const std::string& path, const std::vector<Bytes>& values,
                  const RaggedStorage& storage = {});

}  // namespace h5feed::test
