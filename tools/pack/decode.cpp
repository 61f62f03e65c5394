// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/decode.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace h5feed::cli {
namespace {

using namespace std::string_view_literals;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

cv::Mat scaled(const cv::Mat& image, int width, int height) {
  if (image.cols == width && image.rows == height) return image;
  const bool shrinks = image.cols >= width && image.rows >= height;
  cv::Mat result;
  cv::resize(image, result, cv::Size(width, height), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  return result;
}

// Scales to the size that the fit requires before it crops or pads.
cv::Mat fitted(const cv::Mat& image, const PixelFormat& format) {
  const auto width = static_cast<int>(format.width), height = static_cast<int>(format.height);
  if (format.fit == ImageFit::stretch) return scaled(image, width, height);
  const double by_width = static_cast<double>(width) / image.cols;
  const double by_height = static_cast<double>(height) / image.rows;
  const bool crop = format.fit == ImageFit::crop;
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

}  // namespace

std::vector<std::uint64_t> PixelFormat::shape() const {
  if (channels_last) return {height, width, channels()};
  return {channels(), height, width};
}

std::vector<std::byte> read_image_file(const std::filesystem::path& file) {
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    throw BadImage(fmt::format("cannot be opened ({})", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) throw BadImage("is not a regular file");
  if (status.st_size == 0) throw BadImage("is empty");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw BadImage(count < 0 ? std::strerror(errno) : "became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

void check_image_bytes(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  // Cameras and editors append a few bytes after the end mark.
  constexpr std::size_t kTail = 4096;
  const std::string_view tail = text.substr(text.size() - std::min(kTail, text.size()));
  if (text.starts_with("\xFF\xD8\xFF"sv)) {
    if (tail.find("\xFF\xD9"sv) == std::string_view::npos)
      throw BadImage("is cut short: a JPEG without its end");
    return;
  }
  if (text.starts_with("\x89PNG\r\n\x1A\n"sv)) {
    if (tail.find("IEND"sv) == std::string_view::npos) throw BadImage("is cut short: a PNG without its end");
    return;
  }
  static constexpr std::array<std::string_view, 5> kOthers = {"BM"sv, "RIFF"sv, "II*\0"sv, "MM\0*"sv,
                                                              "\0\0\0\x0CjP"sv};
  const bool netpbm = text.size() > 2 && text[0] == 'P' && text[1] >= '1' && text[1] <= '7';
  if (netpbm ||
      std::any_of(kOthers.begin(), kOthers.end(), [&](auto mark) { return text.starts_with(mark); })) {
    return;
  }
  throw BadImage("is no image of a known kind");
}

void decode_image(std::span<const std::byte> bytes, const PixelFormat& format, std::span<std::byte> out) {
  check_image_bytes(bytes);
  cv::Mat image;
  try {
    // OpenCV takes a non-const pointer but does not change the bytes.
    const cv::Mat raw(1, static_cast<int>(bytes.size()), CV_8UC1, const_cast<std::byte*>(bytes.data()));
    image = cv::imdecode(raw, format.gray ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR);
    if (image.empty()) throw BadImage("cannot be decoded");
    image = fitted(image, format);
    auto* const data = reinterpret_cast<std::uint8_t*>(out.data());
    const auto width = static_cast<int>(format.width), height = static_cast<int>(format.height);
    if (format.gray) {
      image.copyTo(cv::Mat(height, width, CV_8UC1, data));
    } else if (format.channels_last) {
      cv::Mat target(height, width, CV_8UC3, data);
      cv::cvtColor(image, target, cv::COLOR_BGR2RGB);
    } else {
      const std::size_t plane = format.height * format.width;
      std::array<cv::Mat, 3> planes = {cv::Mat(height, width, CV_8UC1, data + 2 * plane),
                                       cv::Mat(height, width, CV_8UC1, data + plane),
                                       cv::Mat(height, width, CV_8UC1, data)};
      cv::split(image, planes.data());
    }
  } catch (const cv::Exception& error) {
    const std::string what = error.what();
    throw BadImage(fmt::format("cannot be decoded ({})", what.substr(0, what.find('\n'))));
  }
}

void use_one_thread_an_image() { cv::setNumThreads(1); }

}  // namespace h5feed::cli
