// SPDX-License-Identifier: Apache-2.0
// The OpenCV image decoder: decodes and scales images and reorders their channels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "base/image_decoder.hpp"
#include "base/option_spelling.hpp"
#include "batch/jpeg_end.hpp"

namespace h5feed {
namespace {

using Color = ImageTarget::Color;

// Below this number of pixels OpenCV's color conversion uses no other thread.
constexpr int kPixelsOnOneThread = 1 << 16;

int flags_of(Color color) {
  switch (color) {
    case Color::gray:
      return cv::IMREAD_GRAYSCALE;
    case Color::unchanged:
      return cv::IMREAD_UNCHANGED;
    case Color::rgb:
    case Color::bgr:
      break;
  }
  return cv::IMREAD_COLOR;
}

// Describes an OpenCV error on one line; OpenCV's own message has several lines and its file names.
std::string reason_of(const cv::Exception& error) {
  return fmt::format("OpenCV failed{}{}; store it as JPEG or PNG, or leave it out",
                     error.err.empty() ? "" : ": ", error.err);
}

ImageExtent extent_of_mat(const cv::Mat& image) {
  if (image.depth() != CV_8U && image.depth() != CV_16U)
    throw ImageError("its pixels are neither of 8 nor of 16 bits; store it as PNG or JPEG");
  return {static_cast<std::uint64_t>(image.rows), static_cast<std::uint64_t>(image.cols),
          static_cast<std::uint64_t>(image.channels()), image.depth() == CV_8U ? DType::u8 : DType::u16};
}

int type_of(const ImageExtent& extent) {
  return CV_MAKETYPE(extent.dtype == DType::u8 ? CV_8U : CV_16U, static_cast<int>(extent.channels));
}

// Returns a matrix that shares the memory at `bytes`.
cv::Mat view(std::byte* bytes, const ImageExtent& extent) {
  return {static_cast<int>(extent.height), static_cast<int>(extent.width), type_of(extent), bytes};
}

// Converts from the B, G, R order of OpenCV to R, G, B, in bands small enough to stay on the calling thread.
void swap_channels(const cv::Mat& from, cv::Mat& to) {
  const int code = from.channels() == 3 ? cv::COLOR_BGR2RGB : cv::COLOR_BGRA2RGBA;
  const int rows = std::max(1, kPixelsOnOneThread / std::max(1, from.cols) - 1);
  for (int row = 0; row < from.rows; row += rows) {
    const cv::Range band(row, std::min(row + rows, from.rows));
    cv::Mat part = to.rowRange(band);
    cv::cvtColor(from.rowRange(band), part, code);
  }
}

void resize(const cv::Mat& from, cv::Mat& to) {
  const bool shrinks = to.rows <= from.rows && to.cols <= from.cols;
  cv::resize(from, to, to.size(), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
}

// Whether the bytes are a PNG of color type 4, gray and alpha (PNG specification, 11.2.2 IHDR), which OpenCV
// decodes to four channels.
bool is_gray_alpha_png(std::span<const std::byte> encoded) {
  constexpr std::array<unsigned char, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr std::size_t kColorType = 25;
  return encoded.size() > kColorType &&
         std::memcmp(encoded.data(), kSignature.data(), kSignature.size()) == 0 &&
         encoded[kColorType] == std::byte{4};
}

cv::Mat gray_and_alpha(const cv::Mat& image) {
  cv::Mat two(image.size(), CV_MAKETYPE(image.depth(), 2));
  const std::array<int, 4> from_to = {0, 0, 3, 1};
  cv::mixChannels(&image, 1, &two, 1, from_to.data(), 2);
  return two;
}

class OpenCvDecoder final : public ImageDecoder {
 public:
  explicit OpenCvDecoder(const ImageTarget& target) : target_(target) {}

  ImageExtent extent_of(std::span<const std::byte> encoded) const override {
    return scaled(extent_of_mat(decoded(encoded)));
  }

  void decode(std::span<const std::byte> encoded, const ImageExtent& extent,
              std::span<std::byte> out) const override {
    const cv::Mat image = decoded(encoded);
    check(scaled(extent_of_mat(image)), extent);
    try {
      cv::Mat target = view(out.data(), extent);
      const bool swaps = target_.color != Color::bgr && image.channels() >= 3;
      if (image.size() == target.size()) {
        swaps ? swap_channels(image, target) : image.copyTo(target);
      } else if (swaps) {
        cv::Mat resized(target.size(), target.type());
        resize(image, resized);
        swap_channels(resized, target);
      } else {
        resize(image, target);
      }
    } catch (const cv::Exception& error) {
      throw ImageError(reason_of(error));
    }
  }

  void scale(std::span<const std::byte> pixels, const ImageExtent& from, bool planar,
             const ImageExtent& extent, std::span<std::byte> out) const override {
    // OpenCV counts rows and columns in int.
    constexpr std::uint64_t kMaxSide = std::numeric_limits<std::int16_t>::max();
    if (from.height < 1 || from.height > kMaxSide || from.width < 1 || from.width > kMaxSide ||
        from.channels < 1 || from.channels > 4 || pixels.size() != from.bytes()) {
      throw ImageError(
          fmt::format("{} bytes are no image of {}×{}×{}; correct its row of the table of shapes",
                      pixels.size(), from.height, from.width, from.channels));
    }
    check(scaled(from), extent);
    std::vector<std::byte> interleaved;
    if (planar && from.channels > 1) {
      const std::size_t plane = pixels.size() / from.channels;
      interleaved.resize(pixels.size());
      for (std::size_t channel = 0; channel < from.channels; ++channel) {
        for (std::size_t i = 0; i < plane; ++i)
          interleaved[i * from.channels + channel] = pixels[channel * plane + i];
      }
      pixels = interleaved;
    }
    if (scaled(from) == from) {
      std::memcpy(out.data(), pixels.data(), pixels.size());
      return;
    }
    try {
      // OpenCV only reads this matrix.
      const cv::Mat image = view(const_cast<std::byte*>(pixels.data()), from);
      cv::Mat target = view(out.data(), extent);
      resize(image, target);
    } catch (const cv::Exception& error) {
      throw ImageError(reason_of(error));
    }
  }

  ImageExtent scaled(ImageExtent extent) const override {
    if (target_.height == 0) return extent;
    extent.height = target_.height;
    extent.width = target_.width;
    return extent;
  }

 private:
  cv::Mat decoded(std::span<const std::byte> encoded) const {
    if (encoded.empty()) throw ImageError("it has no bytes; restore it, or leave it out");
    if (encoded.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw ImageError("it has more than 2 GiB; store it smaller");
    if (!jpeg_is_whole(encoded)) throw ImageError("its JPEG is cut short; restore it, or leave it out");
    try {
      // OpenCV only reads this matrix.
      const cv::Mat bytes(1, static_cast<int>(encoded.size()), CV_8U, const_cast<std::byte*>(encoded.data()));
      cv::Mat image = cv::imdecode(bytes, flags_of(target_.color));
      if (image.empty())
        throw ImageError("it is no image that OpenCV can decode; store it as JPEG or PNG, or leave it out");
      if (target_.color == Color::unchanged && image.channels() == 4 && is_gray_alpha_png(encoded))
        return gray_and_alpha(image);
      return image;
    } catch (const cv::Exception& error) {
      throw ImageError(reason_of(error));
    }
  }

  static void check(const ImageExtent& is, const ImageExtent& wanted) {
    if (is == wanted) return;
    const bool size = is.height != wanted.height || is.width != wanted.width;
    throw ImageError(fmt::format("it is {}×{}×{} {}, the first is {}×{}×{} {}; {}", is.height, is.width,
                                 is.channels, name_of(is.dtype), wanted.height, wanted.width, wanted.channels,
                                 name_of(wanted.dtype),
                                 size ? fmt::format("set {} to scale all alike", spelled(kImageSize))
                                      : "choose a color that makes all alike"));
  }

  const ImageTarget target_;
};

}  // namespace

std::unique_ptr<const ImageDecoder> make_image_decoder(const ImageTarget& target) {
  return std::make_unique<const OpenCvDecoder>(target);
}

}  // namespace h5feed
