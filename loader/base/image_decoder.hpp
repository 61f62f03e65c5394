// From the bytes of an image to its pixels: what the readers know of the library that does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// Bytes that are no image, or one that does not have the extent it should. The message says what is wrong,
/// not where.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Pixels in rows, the channels of a pixel together.
struct ImageExtent {
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::uint64_t channels = 0;
  DType dtype = DType::u8;  ///< u8 or u16

  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(height * width * channels) * size_of(dtype);
  }
  bool operator==(const ImageExtent&) const = default;
};

/// What a decoder makes of images.
struct ImageTarget {
  std::uint64_t height = 0;  ///< scaled to; 0: as they are
  std::uint64_t width = 0;
  enum class Color : std::uint8_t { rgb, bgr, gray, unchanged } color = Color::rgb;
};

/// Immutable and thread-safe. Uses the calling thread alone as long as what it makes has less than 98,304
/// pixels: above that OpenCV scales on threads of its own. No call changes OpenCV's settings.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;

  /// What `decode` would make of these bytes. Decodes them. Throws as `decode` does.
  virtual ImageExtent extent_of(std::span<const std::byte> encoded) const = 0;

  /// What becomes of an image of this extent.
  virtual ImageExtent scaled(ImageExtent extent) const = 0;

  /// Decodes into `out`, which has the size of `extent`. Throws ImageError, also where the image would have
  /// another extent; Error where the codecs cannot be loaded; std::bad_alloc.
  virtual void decode(std::span<const std::byte> encoded, const ImageExtent& extent,
                      std::span<std::byte> out) const = 0;

  /// The same for bytes that are the pixels of an image of extent `from`, in planes with `planar`; with the
  /// channels as they are.
  virtual void scale(std::span<const std::byte> pixels, const ImageExtent& from, bool planar,
                     const ImageExtent& extent, std::span<std::byte> out) const = 0;
};

/// Loads the codecs at the first image, not here (images/image_library.hpp). In
/// loader/images/image_decoder.cpp.
std::unique_ptr<const ImageDecoder> make_image_decoder(const ImageTarget& target);

}  // namespace h5feed
