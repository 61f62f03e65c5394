// SPDX-License-Identifier: Apache-2.0
#include "images/jpeg_pixels.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
// Included after <cstdio>, which it needs but does not include.
#include <jpeglib.h>

#ifndef JCS_EXTENSIONS
#error "h5feed needs libjpeg-turbo; install libjpeg62-turbo-dev, or name it with CMAKE_PREFIX_PATH"
#endif

namespace h5feed {
namespace {

// libjpeg's errors are left by a jump, as exceptions must not pass through its C code.
struct JumpingErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
};

[[noreturn]] void jump_back(j_common_ptr info) {
  std::longjmp(reinterpret_cast<JumpingErrors*>(info->err)->back, 1);
}

// Counts libjpeg's warnings instead of printing them: it fills in damaged data.
void count_warning(j_common_ptr info, int level) {
  if (level < 0) ++info->err->num_warnings;
}

J_COLOR_SPACE space_of(JpegChannels channels) {
  switch (channels) {
    case JpegChannels::bgr:
      return JCS_EXT_BGR;
    case JpegChannels::gray:
      return JCS_GRAYSCALE;
    case JpegChannels::rgb:
      break;
  }
  return JCS_RGB;
}

// Returns whether an APP1 segment may state an orientation other than the default (Exif 2.3, 4.6: a TIFF
// header six bytes into the segment, tag 0x0112 in its first directory). True if unknown.
bool may_turn(std::span<const JOCTET> segment) {
  constexpr std::size_t kTiff = 6, kEntry = 12;
  if (segment.size() < kTiff + 2) return false;
  const std::span<const JOCTET> tiff = segment.subspan(kTiff);
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return false;  // For example XMP
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | tiff[at + (little ? bytes - 1 - i : i)];
    return value;
  };
  if (tiff.size() < 8 || number(2, 2) != 42) return true;
  const std::size_t directory = number(4, 4);
  if (directory > tiff.size() - 2) return true;
  const std::size_t entries = number(directory, 2);
  if (directory + 2 + entries * kEntry > tiff.size()) return true;
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const std::size_t at = directory + 2 + entry * kEntry;
    const bool upright_short = number(at + 2, 2) == 3 && number(at + 4, 4) == 1 && number(at + 8, 2) == 1;
    if (number(at, 2) == 0x0112 && !upright_short) return true;
  }
  return false;
}

bool may_turn(const jpeg_decompress_struct& info) {
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    if (marker->marker == JPEG_APP0 + 1 && may_turn({marker->data, marker->data_length})) return true;
  }
  return false;
}

bool is_plain(const jpeg_decompress_struct& info) {
  constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 30;  // OpenCV's limit
  return (info.num_components == 1 || info.num_components == 3) && info.data_precision == 8 &&
         std::uint64_t{info.image_width} * info.image_height <= kMostPixels && !may_turn(info);
}

// One decompression and the memory it owns.
class Jpeg {
 public:
  Jpeg() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = jump_back;
    errors_.manager.emit_message = count_warning;
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ~Jpeg() { jpeg_destroy_decompress(&info_); }

  bool read_header(std::span<const std::byte> bytes) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xffff);
    return jpeg_read_header(&info_, TRUE) == JPEG_HEADER_OK && is_plain(info_);
  }

  int height() const noexcept { return static_cast<int>(info_.image_height); }
  int width() const noexcept { return static_cast<int>(info_.image_width); }

  bool read_rows(JpegChannels channels, std::byte* out) {
    if (setjmp(errors_.back) != 0) return false;
    info_.out_color_space = space_of(channels);
    jpeg_start_decompress(&info_);
    const std::size_t row_bytes = std::size_t{info_.output_width} * (channels == JpegChannels::gray ? 1 : 3);
    std::array<JSAMPROW, 16> rows;  // libjpeg fills as many rows as it has ready
    while (info_.output_scanline < info_.output_height) {
      const JDIMENSION left = std::min<JDIMENSION>(rows.size(), info_.output_height - info_.output_scanline);
      for (JDIMENSION row = 0; row < left; ++row)
        rows[row] = reinterpret_cast<JSAMPROW>(out + (info_.output_scanline + row) * row_bytes);
      jpeg_read_scanlines(&info_, rows.data(), left);
    }
    jpeg_finish_decompress(&info_);
    return info_.err->num_warnings == 0;
  }

 private:
  jpeg_decompress_struct info_{};
  JumpingErrors errors_{};
};

}  // namespace

bool decode_jpeg(std::span<const std::byte> bytes, JpegChannels channels, const JpegPlace& place) {
  constexpr std::array<std::byte, 3> kStart = {std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
  if (bytes.size() < kStart.size() || !std::equal(kStart.begin(), kStart.end(), bytes.begin())) return false;
  Jpeg jpeg;
  if (!jpeg.read_header(bytes)) return false;
  std::byte* const out = place(jpeg.height(), jpeg.width());
  return out != nullptr && jpeg.read_rows(channels, out);
}

}  // namespace h5feed
