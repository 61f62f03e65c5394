// SPDX-License-Identifier: Apache-2.0
// Implementation of h5feed_images.so: most JPEGs by libjpeg, everything else by OpenCV.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string_view>

#include "images/header_bytes.hpp"
#include "images/image_calls.hpp"
#include "images/image_header.hpp"
#include "images/jpeg_pixels.hpp"

namespace h5feed {
namespace {

using Color = ImageTarget::Color;

// OpenCV does not use other threads for fewer pixels than this.
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

ImageOutcome failed(std::string_view why, ImageReason& reason) noexcept {
  why = why.substr(0, std::min(why.find('\n'), sizeof reason.text - 1));
  std::copy(why.begin(), why.end(), reason.text);
  reason.text[why.size()] = '\0';
  return ImageOutcome::failed;
}

// Calls `work` and turns exceptions into outcomes.
template <typename Work>
ImageOutcome outcome_of(ImageReason* reason, const Work& work) noexcept {
  try {
    return work();
  } catch (const cv::Exception& error) {
    return failed(error.err, *reason);  // what() has several lines and OpenCV's own file names
  } catch (const std::bad_alloc&) {
    return ImageOutcome::no_memory;
  } catch (const std::exception& error) {
    return failed(error.what(), *reason);
  } catch (...) {
    return failed("", *reason);
  }
}

// OpenCV and the libraries of the formats report memory that they were denied as damage; POSIX's malloc says
// so.
template <typename Work>
ImageOutcome guarded(ImageReason* reason, const Work& work) noexcept {
  errno = 0;
  const ImageOutcome outcome = outcome_of(reason, work);
  return outcome != ImageOutcome::done && errno == ENOMEM ? ImageOutcome::no_memory : outcome;
}

// OpenCV has decoders of other formats, some of which crash on damaged bytes, such as that of DICOM, whose
// mark is far from the start and may stand in bytes that begin like another format. And memory is counted by
// the header.
bool has_known_format(HeaderBytes bytes) {
  constexpr std::size_t kDicom = 128;
  const bool found_first = has_text(bytes, 0, "\xFF\xD8\xFF") || has_text(bytes, 0, "\x89PNG\r\n\x1A\n");
  return (found_first || !has_text(bytes, kDicom, "DICM")) && read_image_header(bytes);
}

// Returns nothing for bytes that OpenCV cannot decode, or must not.
cv::Mat decoded(const std::byte* bytes, std::size_t size, int flags) {
  if (!has_known_format({bytes, size})) return {};
  const bool gray = flags == cv::IMREAD_GRAYSCALE;
  if (gray || flags == cv::IMREAD_COLOR) {
    cv::Mat image;
    const auto place = [&](int height, int width) {
      image.create(height, width, gray ? CV_8UC1 : CV_8UC3);
      return reinterpret_cast<std::byte*>(image.data);
    };
    if (decode_jpeg({bytes, size}, gray ? JpegChannels::gray : JpegChannels::bgr, std::ref(place)))
      return image;
  }
  // OpenCV takes the bytes as mutable but does not modify them.
  return cv::imdecode(cv::Mat(1, static_cast<int>(size), CV_8U, const_cast<std::byte*>(bytes)), flags);
}

// Returns whether the bytes are a PNG of color type 4 (PNG specification, 11.2.2 IHDR), which OpenCV decodes
// to four channels.
bool is_gray_alpha_png(const std::byte* bytes, std::size_t size) {
  constexpr std::array<unsigned char, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr std::size_t kColorType = 25;
  return size > kColorType && std::memcmp(bytes, kSignature.data(), kSignature.size()) == 0 &&
         bytes[kColorType] == std::byte{4};
}

cv::Mat gray_and_alpha(const cv::Mat& image) {
  cv::Mat two(image.size(), CV_MAKETYPE(image.depth(), 2));
  const std::array<int, 4> from_to = {0, 0, 3, 1};
  cv::mixChannels(&image, 1, &two, 1, from_to.data(), 2);
  return two;
}

ImageOutcome decode(const std::byte* bytes, std::size_t size, Color color, DecodedImage* to,
                    ImageReason* reason) noexcept {
  return guarded(reason, [&] {
    cv::Mat image = decoded(bytes, size, flags_of(color));
    if (image.empty()) return ImageOutcome::no_image;
    if (color == Color::unchanged && image.channels() == 4 && is_gray_alpha_png(bytes, size))
      image = gray_and_alpha(image);
    if (image.depth() != CV_8U && image.depth() != CV_16U) return ImageOutcome::other_pixels;
    to->extent = {static_cast<std::uint64_t>(image.rows), static_cast<std::uint64_t>(image.cols),
                  static_cast<std::uint64_t>(image.channels()),
                  image.depth() == CV_8U ? DType::u8 : DType::u16};
    to->image = std::make_unique<cv::Mat>(std::move(image)).release();
    return ImageOutcome::done;
  });
}

bool decode_quickly(const std::byte* bytes, std::size_t size, Color color, std::uint64_t height,
                    std::uint64_t width, std::byte* out) noexcept {
  if (color == Color::unchanged) return false;
  const JpegChannels channels = color == Color::gray  ? JpegChannels::gray
                                : color == Color::bgr ? JpegChannels::bgr
                                                      : JpegChannels::rgb;
  const auto place = [&](int rows, int columns) {
    const bool fits =
        static_cast<std::uint64_t>(rows) == height && static_cast<std::uint64_t>(columns) == width;
    return fits ? out : nullptr;
  };
  return decode_jpeg({bytes, size}, channels, std::ref(place));
}

void release(void* image) noexcept { delete static_cast<cv::Mat*>(image); }

void scale_to(const cv::Mat& from, cv::Mat& to) {
  const bool shrinks = to.rows <= from.rows && to.cols <= from.cols;
  cv::resize(from, to, to.size(), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
}

// Converts B, G, R to R, G, B.
void swap_channels(const cv::Mat& from, cv::Mat& to) {
  const int code = from.channels() == 3 ? cv::COLOR_BGR2RGB : cv::COLOR_BGRA2RGBA;
  const int rows = std::max(1, kPixelsOnOneThread / std::max(1, from.cols) - 1);
  for (int row = 0; row < from.rows; row += rows) {
    const cv::Range band(row, std::min(row + rows, from.rows));
    cv::Mat part = to.rowRange(band);
    cv::cvtColor(from.rowRange(band), part, code);
  }
}

ImageOutcome write(const void* decoded_image, std::uint64_t height, std::uint64_t width, bool swap,
                   std::byte* out, ImageReason* reason) noexcept {
  return guarded(reason, [&] {
    const auto& image = *static_cast<const cv::Mat*>(decoded_image);
    cv::Mat target(static_cast<int>(height), static_cast<int>(width), image.type(), out);
    const bool swaps = swap && image.channels() >= 3;
    if (image.size() == target.size()) {
      swaps ? swap_channels(image, target) : image.copyTo(target);
    } else if (swaps) {
      cv::Mat resized(target.size(), target.type());
      scale_to(image, resized);
      swap_channels(resized, target);
    } else {
      scale_to(image, target);
    }
    return ImageOutcome::done;
  });
}

ImageOutcome resize(const std::byte* pixels, const ImageExtent* from, std::uint64_t height,
                    std::uint64_t width, std::byte* out, ImageReason* reason) noexcept {
  return guarded(reason, [&] {
    const int type = CV_MAKETYPE(from->dtype == DType::u8 ? CV_8U : CV_16U, static_cast<int>(from->channels));
    const cv::Mat image(static_cast<int>(from->height), static_cast<int>(from->width), type,
                        const_cast<std::byte*>(pixels));  // Not modified
    cv::Mat target(static_cast<int>(height), static_cast<int>(width), type, out);
    scale_to(image, target);
    return ImageOutcome::done;
  });
}

cv::Mat scaled(const cv::Mat& image, int width, int height) {
  if (image.cols == width && image.rows == height) return image;
  cv::Mat result(height, width, image.type());
  scale_to(image, result);
  return result;
}

cv::Mat fitted(const cv::Mat& image, const FittedPixels& pixels) {
  const auto width = static_cast<int>(pixels.width), height = static_cast<int>(pixels.height);
  if (pixels.fit == ImageFit::stretch) return scaled(image, width, height);
  const double by_width = static_cast<double>(width) / image.cols;
  const double by_height = static_cast<double>(height) / image.rows;
  const bool crop = pixels.fit == ImageFit::crop;
  const double factor = crop ? std::max(by_width, by_height) : std::min(by_width, by_height);
  const auto side = [&](int extent, int target) {
    const int rounded = static_cast<int>(std::lround(extent * factor));
    return crop ? std::max(target, rounded) : std::clamp(rounded, 1, target);
  };
  const cv::Mat image_scaled = scaled(image, side(image.cols, width), side(image.rows, height));
  if (crop) {
    return image_scaled(
        cv::Rect((image_scaled.cols - width) / 2, (image_scaled.rows - height) / 2, width, height));
  }
  cv::Mat padded(height, width, image_scaled.type(), cv::Scalar::all(0));
  image_scaled.copyTo(padded(cv::Rect((width - image_scaled.cols) / 2, (height - image_scaled.rows) / 2,
                                      image_scaled.cols, image_scaled.rows)));
  return padded;
}

ImageOutcome decode_fitted(const std::byte* bytes, std::size_t size, const FittedPixels* pixels,
                           std::byte* out, ImageReason* reason) noexcept {
  return guarded(reason, [&] {
    cv::Mat image = decoded(bytes, size, pixels->gray ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR);
    if (image.empty()) return ImageOutcome::no_image;
    image = fitted(image, *pixels);
    const auto width = static_cast<int>(pixels->width), height = static_cast<int>(pixels->height);
    if (pixels->gray) {
      image.copyTo(cv::Mat(height, width, CV_8UC1, out));
    } else if (pixels->channels_last) {
      cv::Mat target(height, width, CV_8UC3, out);
      cv::cvtColor(image, target, cv::COLOR_BGR2RGB);
    } else {
      const std::size_t plane = pixels->height * pixels->width;
      std::array<cv::Mat, 3> planes = {cv::Mat(height, width, CV_8UC1, out + 2 * plane),
                                       cv::Mat(height, width, CV_8UC1, out + plane),
                                       cv::Mat(height, width, CV_8UC1, out)};
      cv::split(image, planes.data());
    }
    return ImageOutcome::done;
  });
}

void use_one_thread() noexcept { cv::setNumThreads(1); }

constexpr ImageCalls kCalls = {.version = kImageCallsVersion,
                               .decode = decode,
                               .decode_quickly = decode_quickly,
                               .release = release,
                               .write = write,
                               .resize = resize,
                               .decode_fitted = decode_fitted,
                               .use_one_thread = use_one_thread};

}  // namespace
}  // namespace h5feed

extern "C" __attribute__((visibility("default"))) const h5feed::ImageCalls* h5feed_images() noexcept {
  return &h5feed::kCalls;
}
