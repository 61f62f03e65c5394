// SPDX-License-Identifier: Apache-2.0
// What the header of an encoded image tells about the memory that its decoding takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace h5feed {

/// Size of an encoded image, read without decoding it.
struct ImageHeader {
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::uint64_t channels = 0;     ///< Channels that OpenCV decodes it to if they stay unchanged
  std::uint64_t value_bytes = 1;  ///< Bytes of a value if it stays unchanged: 1, 2, 4 or 8
  bool jpeg = false;
  /// Whether the decoder may turn the image, which takes a second copy of it.
  bool may_turn = false;
  /// Bytes of the decoder's own for each pixel, in addition to the image.
  std::uint64_t work_bytes_per_pixel = 0;

  /// Returns the number of pixels, at most 2⁵⁰.
  std::uint64_t pixels() const noexcept;

  /// Returns the bytes of the decoder's own for all pixels, at most 2⁶⁰.
  std::uint64_t work_bytes() const noexcept;
};

/// Reads the header of a JPEG, PNG, WebP, BMP, TIFF, JPEG 2000, PBM, PGM or PPM. Returns nothing for other
/// formats, and for headers that are damaged. Thread-safe.
std::optional<ImageHeader> read_image_header(std::span<const std::byte> encoded) noexcept;

/// Returns whether an APP1 segment of a JPEG may state an orientation other than the default (Exif 2.3, 4.6:
/// a TIFF header six bytes into the segment, tag 0x0112 in its first directory). True if unknown.
/// Thread-safe.
bool exif_may_turn(std::span<const std::byte> segment) noexcept;

}  // namespace h5feed
