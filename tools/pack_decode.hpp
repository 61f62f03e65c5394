// Image files as bytes, and as pixels of a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <vector>

#include "images/image_calls.hpp"

namespace h5feed::cli {

/// An image that cannot be used; says why, in a few words.
class BadImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct PixelFormat {
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  ImageFit fit = ImageFit::crop;
  bool gray = false;
  bool channels_last = false;  ///< (H,W,C) instead of (C,H,W)

  std::uint64_t channels() const noexcept { return gray ? 1 : 3; }
  std::uint64_t bytes() const noexcept { return channels() * height * width; }
  std::vector<std::uint64_t> shape() const;
};

/// The whole file. Throws BadImage: missing, unreadable, empty.
std::vector<std::byte> read_image_file(const std::filesystem::path& file);

/// Throws BadImage where the bytes do not begin as a JPEG, PNG, BMP, WebP, TIFF, JPEG 2000 or netpbm image,
/// or where a JPEG or PNG lacks its end.
void check_image_bytes(std::span<const std::byte> bytes);

/// Decodes (EXIF orientation applied, alpha dropped, RGB), scales with an average over the area where it
/// shrinks, and writes `format.bytes()` bytes. Thread-safe. Throws BadImage;
/// Error where the image codecs cannot be loaded.
void decode_image(std::span<const std::byte> bytes, const PixelFormat& format, std::span<std::byte> out);

/// OpenCV's own threads would only compete with those of the pipeline. For the program as a whole. Throws
/// Error where the image codecs cannot be loaded.
void use_one_thread_an_image();

}  // namespace h5feed::cli
