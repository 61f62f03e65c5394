// SPDX-License-Identifier: Apache-2.0
// The headers of encoded images. An input is an encoded image.
#include <bit>
#include <string_view>

#include "fuzz/fuzz_target.hpp"
#include "images/image_header.hpp"
#include "images/jpeg_end.hpp"

namespace h5feed::test::fuzz {
namespace {

Bytes text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters));
  return {bytes.begin(), bytes.end()};
}

// Big-endian numbers, as most of these formats have them.
Writer& big16(Writer& out, unsigned value) { return out.u8(value >> 8).u8(value & 0xff); }
Writer& big32(Writer& out, unsigned value) { return big16(big16(out, value >> 16), value & 0xffff); }

// A directory of a width, a height and an orientation.
Bytes tiff() {
  Writer out;
  out.bytes(text("II")).u16(42).u32(8).u16(3);
  for (const unsigned tag : {256U, 257U, 274U}) out.u16(tag).u16(3).u32(1).u32(6);
  return out.u32(0).done();
}

Bytes big_tiff() {
  Writer out;
  out.bytes(text("II")).u16(43).u16(8).u16(0).u32(16).u32(0).u32(2).u32(0);
  for (const unsigned tag : {256U, 257U}) out.u16(tag).u16(3).u32(1).u32(0).u32(6).u32(0);
  return out.done();
}

// An orientation, a frame of three components, a scan of one, and the end.
Bytes jpeg(unsigned frame) {
  Writer out;
  out.u16(0xd8ff).u16(0xe1ff);
  big16(out, static_cast<unsigned>(8 + tiff().size()))
      .bytes(text(std::string_view("Exif\0\0", 6)))
      .bytes(tiff());
  out.u8(0xff).u8(frame);
  big16(big16(big16(out, 17).u8(8), 40), 50).u8(3);
  for (unsigned component = 1; component <= 3; ++component)
    out.u8(component).u8(component == 1 ? 0x22 : 0x11).u8(0);
  out.u16(0xdaff);
  big16(out, 8).u8(1).u8(1).u8(0).u8(0).u8(63).u8(0);
  return out.u32(0x12345678).u16(0xd9ff).done();
}

Bytes png() {
  Writer out;
  out.bytes(text("\x89PNG\r\n\x1a\n"));
  big32(out, 13).bytes(text("IHDR"));
  big32(big32(out, 50), 40).u8(16).u8(2).u8(0).u8(0).u8(0).u32(0);
  for (const char* const chunk : {"tRNS", "eXIf", "IEND"}) big32(out, 0).bytes(text(chunk)).u32(0);
  return out.done();
}

Bytes webp(std::string_view chunk, std::span<const std::byte> stream) {
  Writer out;
  out.bytes(text("RIFF"))
      .u32(static_cast<unsigned>(12 + stream.size()))
      .bytes(text("WEBP"))
      .bytes(text(chunk));
  return out.u32(static_cast<unsigned>(stream.size())).bytes(stream).done();
}

Bytes bmp(unsigned header_bytes) {
  Writer out;
  out.bytes(text("BM")).u32(100).u32(0).u32(54).u32(header_bytes).u32(50).u32(40).u16(1).u16(24);
  return out.u32(0).u32(0).u32(0).u32(0).done();
}

// A file of one box, and the codestream that is in it.
Bytes jpeg2000(bool in_file) {
  Writer stream;
  stream.u16(0x4fff).u16(0x51ff);
  big16(big16(stream, 47), 0);
  for (const unsigned value : {50U, 40U, 0U, 0U, 50U, 40U, 0U, 0U}) big32(stream, value);
  big16(stream, 3);
  for (int component = 0; component < 3; ++component) stream.u8(7).u8(1).u8(1);
  if (!in_file) return stream.done();
  Writer out;
  big32(out, 12).bytes(text("jP  \r\n\x87\n"));
  big32(out, static_cast<unsigned>(8 + stream.done().size())).bytes(text("jp2c")).bytes(stream.done());
  return out.done();
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  if (const auto header = read_image_header(input)) {
    require(header->pixels() <= std::uint64_t{1} << 50, "a number of pixels is limited");
    require(header->work_bytes() <= std::uint64_t{1} << 60, "so is the memory of a decoder");
    require(header->channels >= 1 && header->channels <= 4, "OpenCV delivers one to four channels");
    require(std::has_single_bit(header->value_bytes) && header->value_bytes <= 8,
            "a value has 1, 2, 4 or 8 bytes");
  }
  exif_may_turn(input);
  jpeg_is_whole(input);
}

std::vector<Bytes> seeds() {
  const Bytes vp8 = Writer().u8(0).u8(0).u8(0).u8(0x9d).u8(1).u8(0x2a).u16(50).u16(40).done();
  const Bytes vp8l = Writer().u8(0x2f).u32(50 | 40 << 14).done();
  const Bytes vp8x = Writer().u32(0).u16(49).u8(0).u16(39).u8(0).done();
  std::vector<Bytes> result = {jpeg(0xc0),
                               jpeg(0xc2),
                               png(),
                               webp("VP8 ", vp8),
                               webp("VP8L", vp8l),
                               webp("VP8X", vp8x),
                               webp("ALPH", vp8),
                               vp8,
                               bmp(12),
                               bmp(40),
                               tiff(),
                               big_tiff(),
                               jpeg2000(true),
                               jpeg2000(false),
                               text("P4 # a comment\n50 40\n"),
                               text("P6\n50 40\n65535\n")};
  for (const Bytes& seed : result) require(seed == vp8 || seed.size() > 8, "a seed is more than a mark");
  return result;
}

}  // namespace h5feed::test::fuzz
