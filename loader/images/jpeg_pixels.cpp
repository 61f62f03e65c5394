// SPDX-License-Identifier: Apache-2.0
#include "images/jpeg_pixels.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
// Included after <cstdio>, which it needs but does not include.
#include <jpeglib.h>

#include "images/image_header.hpp"

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

bool may_turn(const jpeg_decompress_struct& info) {
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const JOCTET> segment(marker->data, marker->data_length);
    if (marker->marker == JPEG_APP0 + 1 && exif_may_turn(std::as_bytes(segment))) return true;
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
