// SPDX-License-Identifier: Apache-2.0
#include "images/raster_headers.hpp"

#include <algorithm>
#include <limits>

#include "images/tiff_directory.hpp"

namespace h5feed {
namespace {

// No decoder has a larger side, and products of two do not overflow.
constexpr std::uint64_t kMostSide = std::numeric_limits<std::uint32_t>::max();

// What OpenJPEG 2.5 holds of each tile, and of each component of it: its parameters and quantization steps.
constexpr std::uint64_t kJpeg2000TileBytes = 6 * 1024, kJpeg2000TilePartBytes = 1100;

// Returns the offset of the codestream of a JPEG 2000 file, which is in the box "jp2c"; nothing if there is
// none.
std::optional<std::size_t> codestream_of(HeaderBytes file) noexcept {
  constexpr std::size_t kBox = 8, kLongBox = 16;
  for (std::size_t at = 0; file.size() - at >= kBox;) {
    const bool is_long = big_endian(file, at, 4) == 1;
    const std::size_t header = is_long ? kLongBox : kBox;
    if (file.size() - at < header) break;
    if (has_text(file, at + 4, "jp2c")) return at + header;
    const std::uint64_t length = is_long ? big_endian(file, at + kBox, 8) : big_endian(file, at, 4);
    if (length < header || length > file.size() - at) break;  // 0: up to the end
    at += length;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ImageHeader> tiff_header(HeaderBytes encoded) noexcept {
  using Tag = TiffDirectory::Tag;
  constexpr std::uint64_t kPalette = 3;
  const std::optional<TiffDirectory> directory = TiffDirectory::of(encoded);
  if (!directory) return std::nullopt;
  const auto side = [&](Tag tag) { return std::min(directory->value(tag).value_or(0), kMostSide); };
  ImageHeader header{.height = side(Tag::height), .width = side(Tag::width)};
  if (header.height == 0 || header.width == 0) return std::nullopt;
  // Without the tag, libtiff counts the numbers of bits.
  const std::uint64_t channels = directory->value(Tag::channels).value_or(directory->count(Tag::bits));
  const bool palette = directory->value(Tag::color_space) == kPalette;
  header.channels = channels == 1 && palette ? 3
                    : channels == 2          ? 4
                                             : std::clamp<std::uint64_t>(channels, 1, 4);
  const std::uint64_t bits = directory->value(Tag::bits).value_or(1);
  header.value_bytes = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
  header.may_turn = directory->may_turn();
  // Of one tile or strip at a time, which may be larger than the image; four bytes a pixel at least.
  const std::uint64_t rows = directory->value(Tag::rows_per_strip).value_or(0);
  ImageHeader part{.height = rows == 0 ? header.height : std::min(rows, header.height),
                   .width = header.width};
  if (directory->value(Tag::tile_width))
    part = {.height = side(Tag::tile_height), .width = side(Tag::tile_width)};
  const std::uint64_t pixel_bytes = std::max<std::uint64_t>(4, header.channels * header.value_bytes);
  header.work_bytes_per_pixel = (part.pixels() * pixel_bytes + header.pixels() - 1) / header.pixels();
  return header;
}

std::optional<ImageHeader> jpeg2000_header(HeaderBytes encoded) noexcept {
  constexpr std::size_t kSegment = 4;  // The segment SIZ follows two markers
  constexpr std::size_t kBytes = 41;   // Up to its first component, which is included
  const std::optional<std::size_t> at = has_text(encoded, 0, "\xFF\x4F") ? 0 : codestream_of(encoded);
  if (!at || !has_text(encoded, *at, "\xFF\x4F\xFF\x51")) return std::nullopt;
  const HeaderBytes segment = encoded.subspan(*at + kSegment);
  if (segment.size() < kBytes) return std::nullopt;
  const std::uint64_t right = big_endian(segment, 4, 4), bottom = big_endian(segment, 8, 4);
  const std::uint64_t left = big_endian(segment, 12, 4), top = big_endian(segment, 16, 4);
  const std::uint64_t components = big_endian(segment, 36, 2);
  if (right <= left || bottom <= top || components == 0) return std::nullopt;
  bool deep = false;  // Whether any component has more than 8 bits
  for (std::uint64_t component = 0; component < components; ++component) {
    const std::size_t at_depth = 38 + 3 * component;
    if (at_depth >= segment.size()) return std::nullopt;
    deep |= (big_endian(segment, at_depth, 1) & 0x7F) + 1 > 8;
  }
  ImageHeader header{.height = bottom - top,
                     .width = right - left,
                     .channels = components == 1 || components == 3 ? components : std::uint64_t{4},
                     .value_bytes = deep ? std::uint64_t{2} : std::uint64_t{1}};
  const auto tiles_along = [&](std::uint64_t end, std::size_t at_size) {
    const std::uint64_t size = std::max<std::uint64_t>(1, big_endian(segment, at_size, 4));
    const std::uint64_t begin = std::min(end, big_endian(segment, at_size + 8, 4));
    return (end - begin + size - 1) / size;
  };
  constexpr std::uint64_t kMostTiles = 65535;  // The format numbers them with two bytes
  const std::uint64_t tiles = std::min(kMostTiles, tiles_along(right, 20) * tiles_along(bottom, 24));
  const std::uint64_t of_tiles = tiles * (kJpeg2000TileBytes + components * kJpeg2000TilePartBytes);
  // Each component is integers of 4 bytes; 4.7 to 5.3 bytes were measured (OpenCV 4.6, 12 million pixels).
  header.work_bytes_per_pixel = 6 * components + (of_tiles + header.pixels() - 1) / header.pixels();
  return header;
}

std::optional<ImageHeader> pnm_header(HeaderBytes encoded) noexcept {
  std::size_t at = 2;
  const auto character = [&] { return at < encoded.size() ? std::to_integer<char>(encoded[at]) : '\0'; };
  const auto is_blank = [&] { return character() == ' ' || (character() >= '\t' && character() <= '\r'); };
  const auto ends_line = [&] { return at >= encoded.size() || character() == '\n' || character() == '\r'; };
  // The next number of decimal digits, after blanks and comments, which end as OpenCV ends them; 0 if there
  // is none.
  const auto number = [&] {
    while (is_blank() || character() == '#') {
      if (character() == '#') {
        while (!ends_line()) ++at;
      } else {
        ++at;
      }
    }
    std::uint64_t value = 0;
    for (; character() >= '0' && character() <= '9'; ++at)
      value = std::min(kMostSide, value * 10 + static_cast<std::uint64_t>(character() - '0'));
    ++at;  // OpenCV takes any character for the end of a number
    return value;
  };
  if (encoded.size() < 2) return std::nullopt;
  const char kind = std::to_integer<char>(encoded[1]);
  const bool bits = kind == '1' || kind == '4', color = kind == '3' || kind == '6';
  ImageHeader header;
  header.width = number();
  header.height = number();
  header.channels = color ? 3 : 1;
  if (!bits && number() > 255) header.value_bytes = 2;
  if (header.width == 0 || header.height == 0) return std::nullopt;
  return header;
}

}  // namespace h5feed
