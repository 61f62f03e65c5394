// SPDX-License-Identifier: Apache-2.0
#include "images/image_header.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "images/header_bytes.hpp"
#include "images/raster_headers.hpp"
#include "images/tiff_directory.hpp"

namespace h5feed {
namespace {

using namespace std::string_view_literals;
using Bytes = HeaderBytes;

bool is_start_of_frame(std::uint64_t marker) noexcept {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Returns the bytes of DCT coefficients per pixel, rounded up. `frame` begins with the length of the segment.
std::uint64_t coefficient_bytes(Bytes frame, std::uint64_t components) noexcept {
  constexpr std::size_t kFirst = 8, kEach = 3;
  std::uint64_t widest = 1, highest = 1, all = 0;
  for (std::uint64_t i = 0; i < components; ++i) {
    const std::uint64_t factors = big_endian(frame, kFirst + i * kEach + 1, 1);
    const std::uint64_t wide = factors >> 4, high = factors & 15;
    widest = std::max(widest, wide);
    highest = std::max(highest, high);
    all += wide * high;
  }
  return (2 * all + widest * highest - 1) / (widest * highest);
}

// The segments up to the first scan (ITU-T Recommendation T.81, Annex B).
std::optional<ImageHeader> jpeg_header(Bytes bytes) noexcept {
  std::optional<ImageHeader> header;
  std::uint64_t components = 0, coefficients = 0;
  bool may_turn = false, progressive = false;
  for (std::size_t at = 2; at + 4 <= bytes.size();) {
    const std::uint64_t marker = big_endian(bytes, at + 1, 1);
    if (bytes[at] != std::byte{0xFF} || marker == 0 || marker == 0xFF) {
      ++at;  // Decoders skip what is between segments
      continue;
    }
    at += 2;
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) continue;  // No length
    const std::uint64_t length = big_endian(bytes, at, 2);
    if (marker == 0xD9 || length < 2 || length > bytes.size() - at) return std::nullopt;
    const Bytes segment = bytes.subspan(at, length);
    if (marker == 0xE1 && exif_may_turn(segment.subspan(2))) may_turn = true;
    if (is_start_of_frame(marker) && !header) {
      components = length >= 8 ? big_endian(segment, 7, 1) : 0;
      if (components == 0 || length < 8 + 3 * components) return std::nullopt;
      header = ImageHeader{.height = big_endian(segment, 3, 2),
                           .width = big_endian(segment, 5, 2),
                           .channels = components == 1 ? std::uint64_t{1} : std::uint64_t{3},
                           .jpeg = true};
      progressive = (marker & 3) == 2;
      coefficients = coefficient_bytes(segment, components);
    }
    if (marker == 0xDA) {  // A scan of some components keeps the coefficients of all until the last scan
      if (!header || length < 3) return std::nullopt;
      const bool several_scans = progressive || big_endian(segment, 2, 1) < components;
      header->may_turn = may_turn;
      header->work_bytes_per_pixel = several_scans ? coefficients : 0;
      return header;
    }
    at += length;
  }
  return std::nullopt;
}

// PNG specification, 5.3 and 11.2.2.
std::optional<ImageHeader> png_header(Bytes bytes) noexcept {
  constexpr std::size_t kHeader = 8, kChunk = 12;
  if (bytes.size() < 33 || !has_text(bytes, kHeader + 4, "IHDR")) return std::nullopt;
  ImageHeader header{.height = big_endian(bytes, 20, 4), .width = big_endian(bytes, 16, 4), .channels = 3};
  const std::uint64_t depth = big_endian(bytes, 24, 1), color = big_endian(bytes, 25, 1);
  if (color == 0) header.channels = 1;
  if (color == 4 || color == 6) header.channels = 4;
  if (depth == 16) header.value_bytes = 2;
  for (std::size_t at = kHeader; bytes.size() - at >= kChunk;) {
    const std::uint64_t length = big_endian(bytes, at, 4);
    if (has_text(bytes, at + 4, "tRNS")) header.channels = 4;
    if (has_text(bytes, at + 4, "eXIf")) header.may_turn = true;
    if (length > bytes.size() - at - kChunk) break;
    at += length + kChunk;
  }
  return header;
}

// The size in a bitstream of WebP without its chunk (RFC 9649, 3.4 to 3.8; RFC 6386, 9.1).
std::optional<ImageHeader> webp_stream(Bytes stream) noexcept {
  ImageHeader header{.channels = 4, .work_bytes_per_pixel = 8};  // Of lossless images
  if (stream.size() >= 5 && stream[0] == std::byte{0x2F}) {
    const std::uint64_t bits = little_endian(stream, 1, 4);
    if (bits >> 29 != 0) return std::nullopt;  // Another version
    header.width = (bits & 0x3FFF) + 1;
    header.height = (bits >> 14 & 0x3FFF) + 1;
    return header;
  }
  if (stream.size() < 10 || !has_text(stream, 3, "\x9D\x01\x2A")) return std::nullopt;
  header.channels = 3;
  header.width = little_endian(stream, 6, 2) & 0x3FFF;
  header.height = little_endian(stream, 8, 2) & 0x3FFF;
  return header;
}

// RFC 9649, 2.5 to 2.7. libwebp also takes a bitstream without a RIFF header or without any chunk.
std::optional<ImageHeader> webp_header(Bytes bytes) noexcept {
  constexpr std::size_t kChunk = 8;
  Bytes rest = bytes;
  if (has_text(bytes, 0, "RIFF") && has_text(bytes, 8, "WEBP")) rest = bytes.subspan(12);
  while (rest.size() >= kChunk) {
    if (has_text(rest, 0, "VP8X") && rest.size() >= kChunk + 10) {
      return ImageHeader{.height = little_endian(rest, kChunk + 7, 3) + 1,
                         .width = little_endian(rest, kChunk + 4, 3) + 1,
                         .channels = 4,
                         .work_bytes_per_pixel = 8};
    }
    if (has_text(rest, 0, "VP8L") || has_text(rest, 0, "VP8 ")) return webp_stream(rest.subspan(kChunk));
    if (!has_text(rest, 0, "ALPH")) break;
    const std::uint64_t length = little_endian(rest, 4, 4);
    const std::uint64_t padded = length + length % 2;
    if (padded > rest.size() - kChunk) return std::nullopt;
    rest = rest.subspan(kChunk + padded);
  }
  return webp_stream(rest);
}

// The headers of OS/2, of 12 bytes, and those of Windows, of which OpenCV takes any of 36 bytes and more.
std::optional<ImageHeader> bmp_header(Bytes bytes) noexcept {
  constexpr std::size_t kSides = 18;
  const std::uint64_t size = bytes.size() < 26 ? 0 : little_endian(bytes, 14, 4);
  const auto side = [&](std::size_t at) {  // A negative height counts rows from the top
    const auto value = static_cast<std::int32_t>(little_endian(bytes, at, 4));
    return static_cast<std::uint64_t>(std::abs(std::int64_t{value}));
  };
  ImageHeader header{.channels = 4};
  if (size == 12) {
    header.width = little_endian(bytes, kSides, 2);
    header.height = little_endian(bytes, kSides + 2, 2);
  } else if (size >= 36) {
    header.width = side(kSides);
    header.height = side(kSides + 4);
  } else {
    return std::nullopt;
  }
  return header;
}

std::uint64_t product_up_to(std::uint64_t a, std::uint64_t b, std::uint64_t most) noexcept {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? most : std::min(product, most);
}

}  // namespace

std::uint64_t ImageHeader::pixels() const noexcept {
  return product_up_to(height, width, std::uint64_t{1} << 50);
}

std::uint64_t ImageHeader::work_bytes() const noexcept {
  return product_up_to(pixels(), work_bytes_per_pixel, std::uint64_t{1} << 60);
}

std::optional<ImageHeader> read_image_header(Bytes encoded) noexcept {
  if (has_text(encoded, 0, "\xFF\xD8\xFF")) return jpeg_header(encoded);
  if (has_text(encoded, 0, "\x89PNG\r\n\x1A\n")) return png_header(encoded);
  if (has_text(encoded, 0, "BM")) return bmp_header(encoded);
  if (has_text(encoded, 0, "II") || has_text(encoded, 0, "MM")) return tiff_header(encoded);
  if (has_text(encoded, 0, "\xFF\x4F\xFF\x51") || has_text(encoded, 0, "\0\0\0\x0CjP  \r\n\x87\n"sv))
    return jpeg2000_header(encoded);
  if (has_text(encoded, 0, "P") && encoded.size() > 1 && encoded[1] >= std::byte{'1'} &&
      encoded[1] <= std::byte{'6'})
    return pnm_header(encoded);
  return webp_header(encoded);
}

bool exif_may_turn(Bytes segment) noexcept {
  constexpr std::size_t kTiff = 6;
  if (segment.size() < kTiff) return false;
  const Bytes tiff = segment.subspan(kTiff);
  if (!has_text(tiff, 0, "II") && !has_text(tiff, 0, "MM")) return false;  // For example XMP
  const std::optional<TiffDirectory> directory = TiffDirectory::of(tiff);
  return !directory || directory->may_turn();
}

}  // namespace h5feed
