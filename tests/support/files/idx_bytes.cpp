// SPDX-License-Identifier: Apache-2.0
#include "support/files/idx_bytes.hpp"

#include <zlib.h>

#include <stdexcept>

namespace h5feed::test {

std::vector<std::byte> idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& shape,
                                 std::span<const std::byte> data) {
  std::vector<std::byte> bytes = {std::byte{0}, std::byte{0}, std::byte{type},
                                  static_cast<std::byte>(shape.size())};
  for (const std::uint32_t extent : shape) {
    for (const unsigned shift : {24U, 16U, 8U, 0U})
      bytes.push_back(static_cast<std::byte>(extent >> shift & 0xFFU));
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

std::vector<std::byte> gzip(std::span<const std::byte> bytes) {
  z_stream stream{};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::vector<std::byte> out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

}  // namespace h5feed::test
