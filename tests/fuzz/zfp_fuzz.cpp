// SPDX-License-Identifier: Apache-2.0
// The decoder of HDF5 filter 32013. An input is the chunk's size (u16), the number of the filter's parameters
// (u8) and these (u32 each), then what is stored.
#include "fuzz/check_decode.hpp"
#include "support/files/zfp_chunk.hpp"

namespace h5feed::test::fuzz {

namespace {

// Returns whether it decoded.
bool decodes(std::span<const std::byte> input) {
  constexpr unsigned kMostParams = 9;
  Reader reader(input);
  const std::size_t chunk_bytes = 1 + reader.u16() % kMaxBytes;
  FilterSpec spec{.id = filter_id::kZfp, .params = {}, .name = "zfp"};
  for (unsigned left = reader.u8() % kMostParams; left > 0; --left) spec.params.push_back(reader.u32());
  if (!FilterPipeline::supports(spec)) return false;
  return check_decode(FilterPipeline({spec}, chunk_bytes, 1), reader.rest(), 0, chunk_bytes);
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) { decodes(input); }

std::vector<Bytes> seeds() {
  using Mode = ZfpSetUp::Mode;
  std::vector<Bytes> result;
  for (const ZfpValues type : {ZfpValues::i32, ZfpValues::i64, ZfpValues::f32, ZfpValues::f64}) {
    for (const std::vector<std::size_t>& shape :
         {std::vector<std::size_t>{37}, {9, 10}, {5, 6, 7}, {3, 4, 5, 6}}) {
      for (const auto& [mode, limits] : {std::pair{Mode::reversible, ZfpLimits()},
                                         {Mode::rate, ZfpLimits()},
                                         {Mode::precision, ZfpLimits()},
                                         {Mode::expert, ZfpLimits()},
                                         {Mode::expert, ZfpLimits{1, 19, 3, -1075}},
                                         {Mode::expert, ZfpLimits{1, 16658, 3, -1075}}}) {
        const ZfpChunk chunk = zfp_chunk({shape, type, mode, 9, limits});
        Writer writer;
        writer.u16(static_cast<unsigned>(chunk.decoded.size() - 1))
            .u8(static_cast<unsigned>(chunk.params.size()));
        for (const unsigned word : chunk.params) writer.u32(word);
        result.push_back(writer.bytes(chunk.stored).done());
        require(decodes(result.back()), "a seed decodes");
      }
    }
  }
  return result;
}

}  // namespace h5feed::test::fuzz
