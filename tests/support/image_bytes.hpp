// Encoded images and datasets of them, for the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "support/h5_test_file.hpp"

namespace h5feed::test {

using Bytes = std::vector<std::byte>;

/// A smooth picture with noise on it, of CV_8U or CV_16U; another one for each `seed`.
cv::Mat picture(int height, int width, int channels, unsigned seed, int depth = CV_8U);

/// `extension`: ".jpg", ".png". Throws std::runtime_error where OpenCV cannot encode it.
Bytes encoded(const cv::Mat& image, const std::string& extension);

/// A JPEG with an EXIF orientation (1 … 8) put into it.
Bytes with_orientation(const Bytes& jpeg, unsigned orientation);

/// A PNG of 2×2 pixels from a palette: red, green, blue, white.
Bytes palette_png();

/// A PNG of 2×2 pixels of grey (10, 20, 30, 40) with alpha (255, 128, 0, 1).
Bytes gray_alpha_png();

/// The same of 16 bits: (266, 532, 798, 1064) with alpha (65535, 32768, 0, 1).
Bytes deep_gray_alpha_png();

/// A JPEG of 8×8 pixels in CMYK as Adobe writes it, all of the inks 0, 128, 255, 64.
Bytes cmyk_jpeg();

/// A JPEG of 16×16 pixels in YCCK, as Adobe's programs save CMYK, with a quarter each of the inks (0, 0, 0,
/// 0), (255, 0, 0, 0), (0, 255, 0, 64) and (0, 0, 255, 128), from the upper left by rows.
Bytes ycck_jpeg();

/// How to store values of variable length.
struct RaggedStorage {
  std::uint64_t chunk = 0;  ///< 0: contiguous
};

/// Writes a dataset (N) of uint8 of variable length.
void write_ragged(const H5TestFile& file, const std::string& path, const std::vector<Bytes>& values,
                  const RaggedStorage& storage = {});

/// Pixels as loaders deliver them, channel after channel; `image` has them as B, G, R where `from_bgr`.
Bytes planes(const cv::Mat& image, bool from_bgr = true);

}  // namespace h5feed::test
