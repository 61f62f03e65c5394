// SPDX-License-Identifier: Apache-2.0
// The table of functions between h5feed and h5feed_images.so, which holds the image codecs. No exception and
// no object with a destructor crosses it, so neither side depends on how the other was compiled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_decoder.hpp"

namespace h5feed {

/// Version of the function table. Increase it with every change to this file.
inline constexpr std::uint32_t kImageCallsVersion = 1;

/// Result of a call. `no_image`: the bytes are in no format that OpenCV decodes; `other_pixels`: the pixels
/// have neither 8 nor 16 bits per channel; `failed`: OpenCV failed, see ImageReason; `no_memory`: memory is
/// short.
enum class ImageOutcome : std::int32_t { done, no_image, other_pixels, failed, no_memory };

/// OpenCV's reason for a failure: one line, null-terminated. Empty unless the outcome is `failed`.
struct ImageReason {
  char text[512];  ///< Null-terminated text
};

/// A decoded image. `image` is owned by h5feed_images.so; free it with ImageCalls::release.
struct DecodedImage {
  void* image;  ///< Opaque; owned by h5feed_images.so
  ImageExtent extent;
};

/// How an image is fitted to `height` × `width`. `crop`: scale it to cover the size and keep the middle;
/// `pad`: scale it to fit and center it on black; `stretch`: scale each dimension on its own.
enum class ImageFit : std::uint8_t { crop, pad, stretch };

/// Format of the uint8 pixels that ImageCalls::decode_fitted writes: height · width · (1 or 3) bytes.
struct FittedPixels {
  std::uint64_t height;
  std::uint64_t width;
  ImageFit fit;
  bool gray;           ///< One channel instead of R, G, B
  bool channels_last;  ///< Layout (H,W,C) instead of (C,H,W)
};

/// Functions of h5feed_images.so. All are thread-safe, and all except `use_one_thread` leave OpenCV's
/// settings unchanged. Images are scaled by area averaging if neither side grows, else by linear
/// interpolation.
struct ImageCalls {
  std::uint32_t version;  ///< kImageCallsVersion of the shared object; the first member in every version

  /// Decodes an image and applies its EXIF orientation; colors are in the order B, G, R unless `gray`. On
  /// `done`, the caller must release `to->image`.
  ImageOutcome (*decode)(const std::byte* bytes, std::size_t size, ImageTarget::Color color, DecodedImage* to,
                         ImageReason* reason) noexcept;

  /// Decodes images for which there is a fast path straight into `out`: most JPEGs of exactly `height` ×
  /// `width`, to (H,W,3), or (H,W,1) if `color` is `gray`. Returns false, with `out` unspecified, for all
  /// others: call `decode` then.
  bool (*decode_quickly)(const std::byte* bytes, std::size_t size, ImageTarget::Color color,
                         std::uint64_t height, std::uint64_t width, std::byte* out) noexcept;

  /// Frees an image that `decode` returned.
  void (*release)(void* image) noexcept;

  /// Writes a decoded image to `out`, scaled to `height` × `width`, in layout (H,W,C). `swap` writes R, G, B
  /// instead of B, G, R if there are three or four channels.
  ImageOutcome (*write)(const void* image, std::uint64_t height, std::uint64_t width, bool swap,
                        std::byte* out, ImageReason* reason) noexcept;

  /// Scales pixels in layout (H,W,C), of 1 to 4 channels, from the extent `from` to `height` × `width`.
  ImageOutcome (*resize)(const std::byte* pixels, const ImageExtent* from, std::uint64_t height,
                         std::uint64_t width, std::byte* out, ImageReason* reason) noexcept;

  /// Decodes an image and fits it to the format `pixels`, for `h5feed pack`.
  ImageOutcome (*decode_fitted)(const std::byte* bytes, std::size_t size, const FittedPixels* pixels,
                                std::byte* out, ImageReason* reason) noexcept;

  /// Makes OpenCV single-threaded in the whole process.
  void (*use_one_thread)() noexcept;
};

/// Type of the only function that h5feed_images.so exports, `h5feed_images`.
using ImageEntry = const ImageCalls* (*)() noexcept;
/// Name of the only function that h5feed_images.so exports.
inline constexpr const char* kImageEntry = "h5feed_images";

}  // namespace h5feed
