// SPDX-License-Identifier: Apache-2.0
#include "support/files/image_bytes.hpp"

#include <zlib.h>

#include <stdexcept>
#include <string_view>

#ifdef H5FEED_TEST_IMAGES
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace h5feed::test {
namespace {

void append(Bytes& to, std::initializer_list<unsigned> bytes) {
  for (const unsigned byte : bytes) to.push_back(static_cast<std::byte>(byte));
}

void append_big_endian(Bytes& to, std::uint32_t value) {
  append(to, {value >> 24, value >> 16 & 0xff, value >> 8 & 0xff, value & 0xff});
}

void append_png_chunk(Bytes& png, std::string_view kind, const Bytes& content) {
  append_big_endian(png, static_cast<std::uint32_t>(content.size()));
  Bytes body;
  for (const char c : kind) body.push_back(static_cast<std::byte>(c));
  body.insert(body.end(), content.begin(), content.end());
  png.insert(png.end(), body.begin(), body.end());
  append_big_endian(png, static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                                            static_cast<uInt>(body.size()))));
}

// Returns a PNG of 2×2 pixels: `rows` with a filter byte before each row.
Bytes small_png(unsigned depth, unsigned color_type, const std::vector<unsigned char>& rows,
                const Bytes& palette = {}) {
  Bytes png;
  append(png, {0x89, 'P', 'N', 'G', 13, 10, 26, 10});
  Bytes header;
  append_big_endian(header, 2);
  append_big_endian(header, 2);
  append(header, {depth, color_type, 0, 0, 0});
  append_png_chunk(png, "IHDR", header);
  if (!palette.empty()) append_png_chunk(png, "PLTE", palette);
  Bytes packed(::compressBound(rows.size()));
  uLongf bytes = packed.size();
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, rows.data(), rows.size()) != Z_OK)
    throw std::runtime_error("zlib failed");
  packed.resize(bytes);
  append_png_chunk(png, "IDAT", packed);
  append_png_chunk(png, "IEND", {});
  return png;
}

}  // namespace

#ifdef H5FEED_TEST_IMAGES
cv::Mat picture(int height, int width, int channels, unsigned seed, int depth) {
  cv::Mat image(height, width, CV_MAKETYPE(depth, channels));
  cv::RNG random(seed + 1);
  random.fill(image, cv::RNG::UNIFORM, 0, depth == CV_8U ? 256 : 65536);
  cv::Mat smooth;
  cv::blur(image, smooth, {5, 5});
  return smooth;
}

Bytes encoded(const cv::Mat& image, const std::string& extension) {
  std::vector<unsigned char> bytes;
  if (!cv::imencode(extension, image, bytes)) throw std::runtime_error("OpenCV cannot encode a test image");
  const auto span = std::as_bytes(std::span(bytes));
  return {span.begin(), span.end()};
}

Bytes planes(const cv::Mat& image, bool from_bgr) {
  std::vector<cv::Mat> channels;
  cv::split(image, channels);
  if (from_bgr && channels.size() >= 3) std::swap(channels[0], channels[2]);
  Bytes bytes;
  for (const cv::Mat& channel : channels) {
    const auto* const begin = reinterpret_cast<const std::byte*>(channel.data);
    bytes.insert(bytes.end(), begin, begin + channel.total() * channel.elemSize());
  }
  return bytes;
}
#endif

Bytes with_orientation(const Bytes& jpeg, unsigned orientation) {
  Bytes result(jpeg.begin(), jpeg.begin() + 2);
  // An APP1 segment of 34 bytes: "Exif", a little-endian TIFF header, one entry: tag 0x0112, one short.
  append(result, {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0});
  append(result, {0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0});
  result.insert(result.end(), jpeg.begin() + 2, jpeg.end());
  return result;
}

Bytes palette_png() {
  Bytes palette;
  append(palette, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255});
  return small_png(8, 3, {0, 0, 1, 0, 2, 3}, palette);
}

Bytes gray_alpha_png() { return small_png(8, 4, {0, 10, 255, 20, 128, 0, 30, 0, 40, 1}); }

Bytes deep_gray_alpha_png() {
  return small_png(16, 4, {0, 1, 10, 255, 255, 2, 20, 128, 0, 0, 3, 30, 0, 0, 4, 40, 0, 1});
}

Bytes cmyk_jpeg() {
  // Made with libjpeg at quality 100.
  constexpr std::string_view kHex =
      "ffd8ffee000e41646f626500640000000000ffdb00430001010101010101010101010101010101010101010101010101"
      "010101010101010101010101010101010101010101010101010101010101010101010101010101ffc000140800080008"
      "044311004d11005911004b1100ffc40017000003010000000000000000000000000004090a0bffc40014100100000000"
      "000000000000000000000000ffda000e0443004d0059004b00003f00bf80ecff00cfe1ffd9";
  return from_hex(kHex);
}

Bytes ycck_jpeg() {
  // Made with libjpeg at quality 100, without subsampling.
  constexpr std::string_view kHex =
      "ffd8ffee000e41646f626500640000000002ffdb00430001010101010101010101010101010101010101010101010101"
      "010101010101010101010101010101010101010101010101010101010101010101010101010101ffdb00430101010101"
      "010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101"
      "010101010101010101010101ffc00014080010001004011100021101031101041100ffc4001600010101000000000000"
      "000000000000000a000bffc40014100100000000000000000000000000000000ffc40017010003010000000000000000"
      "000000000000090a0bffc40014110100000000000000000000000000000000ffda000e040100021103110400003f00cf"
      "fc03f82602a75fc22502b7615e3fe06eda615603feffd9";
  return from_hex(kHex);
}

void write_ragged(const H5TestFile& file, const std::string& path, const std::vector<Bytes>& values,
                  const RaggedStorage& storage) {
  const Hid type(H5Tvlen_create(H5T_STD_U8LE));
  const hsize_t rows = values.size();
  const Hid space(H5Screate_simple(1, &rows, nullptr));
  const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
  if (storage.chunk > 0) {
    const hsize_t chunk = storage.chunk;
    require(H5Pset_chunk(plist.get(), 1, &chunk), "H5Pset_chunk");
  }
  const Hid dataset(
      H5Dcreate2(file.id(), path.c_str(), type.get(), space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  std::vector<hvl_t> elements;
  for (const Bytes& value : values)
    elements.push_back({value.size(), const_cast<std::byte*>(value.data())});  // libhdf5 only reads it
  if (rows > 0) {
    require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()), "H5Dwrite");
  }
}

}  // namespace h5feed::test
