// SPDX-License-Identifier: Apache-2.0
#include "fuzz/szip_seeds.hpp"

#include <libaec.h>

namespace h5feed::test::fuzz {

Bytes encode_szip(std::span<const std::byte> chunk, unsigned block_pixels, unsigned pixel_bits,
                  unsigned scanline_pixels) {
  Bytes stream_bytes(2 * chunk.size() + 64);
  aec_stream stream{};
  stream.next_in = reinterpret_cast<const unsigned char*>(chunk.data());
  stream.avail_in = chunk.size();
  stream.next_out = reinterpret_cast<unsigned char*>(stream_bytes.data());
  stream.avail_out = stream_bytes.size();
  stream.bits_per_sample = pixel_bits;
  stream.block_size = block_pixels;
  stream.rsi = scanline_pixels / block_pixels;
  stream.flags = AEC_DATA_PREPROCESS | AEC_NOT_ENFORCE;
  require(aec_buffer_encode(&stream) == AEC_OK, "libaec encodes a seed");
  stream_bytes.resize(stream.total_out);
  return Writer().u32(static_cast<unsigned>(chunk.size())).bytes(stream_bytes).done();
}

}  // namespace h5feed::test::fuzz
