// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg alone: half the time that OpenCV takes for the same pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace h5feed {

/// The order of the channels, 8 bits each.
enum class JpegChannels : std::uint8_t { rgb, bgr, gray };

/// Returns where the rows of an image of this size go, one behind the other; null to leave it.
using JpegPlace = std::function<std::byte*(int height, int width)>;

/// Decodes what OpenCV would decode to the same bits. Returns false, with anything in what `place` returned,
/// for all else, which is left to OpenCV: bytes that are no JPEG, or a damaged one; other than one or three
/// components; an orientation in EXIF; more pixels than OpenCV accepts; a size that `place` does not want.
/// Thread-safe. Throws what `place` throws.
bool decode_jpeg(std::span<const std::byte> bytes, JpegChannels channels, const JpegPlace& place);

}  // namespace h5feed
