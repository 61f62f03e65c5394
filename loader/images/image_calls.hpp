// SPDX-License-Identifier: Apache-2.0
// The table of functions between h5feed and h5feed_images.so, which holds the image codecs. No exception and
// no object with a destructor crosses it, so that neither side depends on how the other was compiled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_decoder.hpp"

namespace h5feed {

/// Grows with every change to this file.
inline constexpr std::uint32_t kImageCallsVersion = 1;

/// How a call ended. `no_image`: the bytes are in no format that OpenCV decodes; `other_pixels`: the pixels
/// have neither 8 nor 16 bits a channel; `failed`: OpenCV refused, see ImageReason.
enum class ImageOutcome : std::int32_t { done, no_image, other_pixels, failed, no_memory };

/// OpenCV's reason, in one line and ended by a zero. Empty unless the outcome is `failed`.
struct ImageReason {
  char text[512];
};

/// A decoded image. `image` belongs to h5feed_images.so and is freed by ImageCalls::release.
struct DecodedImage {
  void* image;
  ImageExtent extent;
};

/// How an image becomes one of `height` × `width`. `crop`: scaled until it covers the size, its middle kept;
/// `pad`: scaled until it fits, in the middle of black; `stretch`: scaled in both directions.
enum class ImageFit : std::uint8_t { crop, pad, stretch };

/// The uint8 pixels that ImageCalls::decode_fitted writes: height · width · (1 or 3) bytes.
struct FittedPixels {
  std::uint64_t height;
  std::uint64_t width;
  ImageFit fit;
  bool gray;           ///< one channel instead of R, G, B
  bool channels_last;  ///< (H,W,C) instead of (C,H,W)
};

/// What h5feed_images.so offers. Every function is thread-safe and, but for `use_one_thread`, leaves the
/// settings of OpenCV alone. An image is scaled by averages over areas where neither side grows, else by
/// linear interpolation.
struct ImageCalls {
  std::uint32_t version;  ///< kImageCallsVersion of the object; first in every version

  /// Decodes, with the orientation that EXIF states; colors in the order B, G, R unless `gray`.
  ImageOutcome (*decode)(const std::byte* bytes, std::size_t size, ImageTarget::Color color, DecodedImage* to,
                         ImageReason* reason) noexcept;

  /// Decodes straight to `out` what is quick to decode: most JPEGs of exactly this size, to (H,W,3) or, with
  /// `gray`, (H,W,1). Returns false, with anything in `out`, for all else: `decode` then.
  bool (*decode_quickly)(const std::byte* bytes, std::size_t size, ImageTarget::Color color,
                         std::uint64_t height, std::uint64_t width, std::byte* out) noexcept;

  /// Frees what `decode` made.
  void (*release)(void* image) noexcept;

  /// Writes a decoded image, scaled to `height` × `width`, in rows, the channels of a pixel together. With
  /// `swap` R, G, B instead of B, G, R where there are three or four channels.
  ImageOutcome (*write)(const void* image, std::uint64_t height, std::uint64_t width, bool swap,
                        std::byte* out, ImageReason* reason) noexcept;

  /// Scales pixels in rows, of 1 to 4 channels.
  ImageOutcome (*resize)(const std::byte* pixels, const ImageExtent* from, std::uint64_t height,
                         std::uint64_t width, std::byte* out, ImageReason* reason) noexcept;

  /// Decodes and fits, for `h5feed pack`.
  ImageOutcome (*decode_fitted)(const std::byte* bytes, std::size_t size, const FittedPixels* pixels,
                                std::byte* out, ImageReason* reason) noexcept;

  /// Keeps OpenCV from using threads of its own, in the whole process.
  void (*use_one_thread)() noexcept;
};

/// The only function that h5feed_images.so exports: `h5feed_images`.
using ImageEntry = const ImageCalls* (*)() noexcept;
inline constexpr const char* kImageEntry = "h5feed_images";

}  // namespace h5feed
