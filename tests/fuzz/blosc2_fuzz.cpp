// SPDX-License-Identifier: Apache-2.0
// The decoder of HDF5 filter 32026. An input is the chunk's size (u16), then the stored frame.
#include "fuzz/check_decode.hpp"
#include "support/files/blosc2_chunk.hpp"

namespace h5feed::test::fuzz {

namespace {

// Returns whether it decoded.
bool decodes(std::span<const std::byte> input) {
  Reader reader(input);
  const std::size_t chunk_bytes = 1 + reader.u16() % kMaxBytes;
  const FilterSpec spec{.id = filter_id::kBlosc2, .params = {1, 0, 4, 0}, .name = "blosc2"};
  return check_decode(FilterPipeline({spec}, chunk_bytes, 1), reader.rest(), 0, chunk_bytes);
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) { decodes(input); }

std::vector<Bytes> seeds() {
  std::vector<Blosc2SetUp> set_ups = {{.element_bytes = 4},
                                      {.shape = {16, 32}, .block = {8, 16}, .element_bytes = 4},
                                      {.shape = {5, 7, 9}, .block = {2, 4, 9}, .element_bytes = 2}};
  std::vector<Bytes> result;
  for (Blosc2SetUp& set_up : set_ups) {
    std::size_t bytes = static_cast<std::size_t>(set_up.element_bytes);
    for (const std::int32_t extent : set_up.shape) bytes *= static_cast<std::size_t>(extent);
    if (set_up.shape.empty()) bytes = 2048;
    for (const int codec : {0, 1, 2, 4, 5}) {
      for (const int filter : {0, 1, 2, 3}) {
        set_up.codec = codec;
        set_up.filter = filter;
        Bytes values(bytes);
        for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i / 16 + (i % 7 == 0));
        if (codec == 5 && filter == 3) values.assign(bytes, std::byte{0});
        Writer writer;
        writer.u16(static_cast<unsigned>(bytes - 1));
        result.push_back(writer.bytes(blosc2_chunk(set_up, values)).done());
        require(decodes(result.back()), "a seed decodes");
      }
    }
  }
  return result;
}

}  // namespace h5feed::test::fuzz
