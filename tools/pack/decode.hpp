// SPDX-License-Identifier: Apache-2.0
// Reads image files as bytes, and as pixels of a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <vector>

#include "images/image_calls.hpp"

namespace h5feed::cli {

/// Thrown for an image that cannot be used; what() says why, in a few words.
class BadImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Format of decoded images: uint8 pixels of one size.
struct PixelFormat {
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  ImageFit fit = ImageFit::crop;
  bool gray = false;
  bool channels_last = false;  ///< (H,W,C) instead of (C,H,W)

  std::uint64_t channels() const noexcept { return gray ? 1 : 3; }
  std::uint64_t bytes() const noexcept { return channels() * height * width; }
  /// Returns (C,H,W), or (H,W,C) if `channels_last`.
  std::vector<std::uint64_t> shape() const;
};

/// Returns the content of a file. Throws BadImage if it is missing, unreadable or empty.
std::vector<std::byte> read_image_file(const std::filesystem::path& file);

/// Throws BadImage if the bytes do not begin as a JPEG, PNG, BMP, WebP, TIFF, JPEG 2000 or netpbm image, or
/// if the end of a JPEG or PNG is missing.
void check_image_bytes(std::span<const std::byte> bytes);

/// Decodes an image to RGB or gray (EXIF orientation applied, alpha dropped), scales it, averaging over areas
/// when it shrinks, and writes `format.bytes()` bytes. Thread-safe. Throws BadImage; Error if the image
/// codecs cannot be loaded.
void decode_image(std::span<const std::byte> bytes, const PixelFormat& format, std::span<std::byte> out);

/// Turns off OpenCV's own threads, which would compete with those of the pipeline. Applies to the whole
/// process. Throws Error if the image codecs cannot be loaded.
void use_one_thread_an_image();

}  // namespace h5feed::cli
