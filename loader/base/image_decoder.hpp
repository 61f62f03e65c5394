// SPDX-License-Identifier: Apache-2.0
// Interface of the image decoder: decodes and scales images without exposing the image library to the
// readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// Thrown for bytes that are not a decodable image, and for an image that does not have the expected extent.
/// The message says what is wrong, not where; callers add the place.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Extent and dtype of an image stored row by row with interleaved channels (H,W,C).
struct ImageExtent {
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::uint64_t channels = 0;
  DType dtype = DType::u8;  ///< u8 or u16

  /// Returns the size of the pixels in bytes.
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(height * width * channels) * size_of(dtype);
  }
  bool operator==(const ImageExtent&) const = default;
};

/// Output format of an image decoder.
struct ImageTarget {
  std::uint64_t height = 0;  ///< Output height in pixels; 0 keeps the size of the image
  std::uint64_t width = 0;
  /// Channels of the output. `unchanged` keeps their number and depth, in the order R, G, B, A; the others
  /// give 8 bits.
  enum class Color : std::uint8_t { rgb, bgr, gray, unchanged } color = Color::rgb;
};

/// Memory that decoding one image takes, and the size of the image as stored.
struct ImageNeeds {
  std::uint64_t height = 0;  ///< In pixels; 0 if it cannot be told without decoding
  std::uint64_t width = 0;
  std::uint64_t bytes = 0;  ///< In addition to the encoded and the delivered image; 0 if not known
};

/// Decodes and scales images. Immutable and thread-safe. Uses the calling thread alone while the output has
/// fewer than 98,304 pixels; above that OpenCV scales on threads of its own. No call changes OpenCV's
/// settings.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;

  /// Returns the extent that `decode` produces for these bytes. Decodes the image to find out. Throws
  /// ImageError, also for one whose header claims more than half of the available memory; std::bad_alloc.
  virtual ImageExtent extent_of(std::span<const std::byte> encoded) const = 0;

  /// Returns what `decode` to `extent` will take, from the header of a JPEG, PNG, WebP, BMP, TIFF, JPEG 2000
  /// or PNM. Allocates nothing.
  virtual ImageNeeds needs_of(std::span<const std::byte> encoded, const ImageExtent& extent) const = 0;

  /// Returns the extent of an image of this extent after scaling.
  virtual ImageExtent scaled(ImageExtent extent) const = 0;

  /// Decodes, scales and reorders the channels of an image into `out`, which has `extent.bytes()` bytes.
  /// Throws ImageError if the bytes cannot be decoded or the result would have another extent; Error if the
  /// codecs cannot be loaded; std::bad_alloc.
  virtual void decode(std::span<const std::byte> encoded, const ImageExtent& extent,
                      std::span<std::byte> out) const = 0;

  /// Scales raw pixels of extent `from` into `out`, which has `extent.bytes()` bytes; the order of the
  /// channels stays. With `planar` the input is stored as (C,H,W), else as (H,W,C); the output is (H,W,C).
  /// Throws ImageError if the sizes do not fit or the result would have another extent; std::bad_alloc.
  virtual void scale(std::span<const std::byte> pixels, const ImageExtent& from, bool planar,
                     const ImageExtent& extent, std::span<std::byte> out) const = 0;
};

/// Creates the decoder. The codecs are loaded at the first image (images/image_library.hpp). Defined in
/// loader/images/image_decoder.cpp.
std::unique_ptr<const ImageDecoder> make_image_decoder(const ImageTarget& target);

}  // namespace h5feed
