// SPDX-License-Identifier: Apache-2.0
// One decoder by itself: H5FEED_FUZZED_FILTER names it. An input is the chunk's size (u16), four bytes
// that choose the filter's parameters, then what is stored.
#include <array>

#include "fuzz/check_decode.hpp"
#include "fuzz/szip_seeds.hpp"
#include "support/files/scaleoffset_chunk.hpp"

namespace h5feed::test::fuzz {
namespace {

enum FuzzedFilter {
  k_deflate,
  k_shuffle,
  k_fletcher32,
  k_lzf,
  k_lz4,
  k_zstd,
  k_blosc,
  k_bitshuffle,
  k_bzip2,
  k_szip,
  k_scaleoffset,
  k_nbit
};
constexpr FuzzedFilter kFilter = H5FEED_FUZZED_FILTER;

using Choice = std::array<unsigned, 4>;

FilterSpec filter(const Choice& choice, std::size_t chunk_bytes) {
  switch (kFilter) {
    case k_deflate:
      return {.id = filter_id::kDeflate, .name = "gzip"};
    case k_shuffle:
      return {.id = filter_id::kShuffle, .params = {1 + choice[0]}, .name = "shuffle"};
    case k_fletcher32:
      return {.id = filter_id::kFletcher32, .name = "fletcher32"};
    case k_lzf:
      return {.id = filter_id::kLzf, .name = "lzf"};
    case k_lz4:
      return {.id = filter_id::kLz4, .params = {choice[0] * 16}, .name = "lz4"};
    case k_zstd:
      return {.id = filter_id::kZstd, .name = "zstd"};
    case k_blosc:
      return {.id = filter_id::kBlosc,
              .params = {2, 2, 1 + choice[0], 0, choice[1] % 10, choice[2] % 3, choice[3] % 6},
              .name = "blosc"};
    case k_bitshuffle:
      return {.id = filter_id::kBitshuffle,
              .params = {0, 4, 1 + choice[0], choice[1] * 8, choice[2] % 4},
              .name = "bitshuffle"};
    case k_bzip2:
      return {.id = filter_id::kBzip2, .params = {1}, .name = "bzip2"};
    case k_szip:
      return {.id = filter_id::kSzip,
              .params = {choice[0], choice[1] % 33, 1 + choice[2] % 64, 16 * (choice[3] + 1)},
              .name = "szip"};
    case k_scaleoffset: {
      const std::size_t element_bytes = std::size_t{1} << choice[0] % 4;
      ScaleOffsetSetUp set_up{.floating = (choice[0] & 4U) != 0,
                              .factor = static_cast<int>(choice[2]) - 128,
                              .elements = chunk_bytes / element_bytes + choice[3] / 128,
                              .element_bytes = element_bytes,
                              .big_endian = (choice[0] & 8U) != 0};
      if (choice[1] != 0) set_up.fill_value = 0x0101010101010101U * choice[1];
      return {.id = filter_id::kScaleOffset, .params = scaleoffset_params(set_up), .name = "scaleoffset"};
    }
    case k_nbit: {
      const unsigned element_bytes = 1U << choice[0] % 4;
      const auto elements = static_cast<unsigned>(chunk_bytes / element_bytes) + choice[3] / 128;
      return {.id = filter_id::kNbit,
              .params = {8, 0, elements, 1, element_bytes, choice[0] / 4 % 2, choice[1] % 65, choice[2] % 65},
              .name = "nbit"};
    }
  }
}

// Parameters that seeds are made for.
std::vector<Choice> seed_choices() {
  if (kFilter == k_shuffle) return {{1}, {2}, {3}, {7}};
  if (kFilter == k_lz4) return {{0}, {4}};
  if (kFilter == k_bitshuffle) return {{0, 0, 0}, {1, 32, 2}, {3, 64, 2}, {3, 0, 3}, {7, 16, 0}};
  if (kFilter == k_scaleoffset) return {{0, 0, 128}, {1, 7, 128}, {10, 0, 128}, {6, 0, 130}, {15, 1, 126}};
  if (kFilter == k_nbit) return {{0, 5, 1}, {1, 12, 0}, {5, 12, 3}, {2, 20, 7}, {7, 61, 2}};
  if (kFilter == k_szip) return {{32, 8, 7, 3}, {32, 16, 15, 7}, {32, 32, 7, 15}};
  std::vector<Choice> blosc;
  for (const unsigned codec : {0U, 1U, 2U, 4U, 5U}) {
    for (const unsigned shuffle : {0U, 1U, 2U}) blosc.push_back({3, 5, shuffle, codec});
  }
  return kFilter == k_blosc ? blosc : std::vector<Choice>{{}};
}

// What is stored for `chunk`; of scaleoffset and nbit some values, which decode to another chunk.
Bytes stored_for(const FilterSpec& spec, const Bytes& chunk) {
  if (kFilter == k_szip) return encode_szip(chunk, spec.params[1], spec.params[2], spec.params[3]);
  if (kFilter == k_nbit) return chunk;
  if (kFilter != k_scaleoffset) return FilterPipeline({spec}, chunk.size(), 1).encode(chunk);
  std::vector<std::uint64_t> values(spec.params[2]);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 32;
  return scaleoffset_chunk(5, 3, values);
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const std::size_t chunk_bytes = 1 + reader.u16() % kMaxBytes;
  const FilterSpec spec = filter({reader.u8(), reader.u8(), reader.u8(), reader.u8()}, chunk_bytes);
  if (!FilterPipeline::supports(spec)) return;
  check_decode(FilterPipeline({spec}, chunk_bytes, 1), reader.rest(), 0, chunk_bytes);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> result;
  for (const std::size_t chunk_bytes : {256U, 2048U}) {
    for (const Choice& choice : seed_choices()) {
      Bytes smooth(chunk_bytes);
      for (std::size_t i = 0; i < chunk_bytes; ++i) smooth[i] = static_cast<std::byte>(i / 16 + (i % 7 == 0));
      const FilterSpec spec = filter(choice, chunk_bytes);
      const Bytes stored = stored_for(spec, smooth);
      Writer writer;
      writer.u16(static_cast<unsigned>(chunk_bytes - 1));
      for (const unsigned byte : choice) writer.u8(byte);
      result.push_back(writer.bytes(stored).done());
      Reader reader(result.back());
      reader.u32();
      reader.u16();
      require(check_decode(FilterPipeline({spec}, chunk_bytes, 1), reader.rest(), 0, chunk_bytes),
              "a seed decodes");
    }
  }
  return result;
}

}  // namespace h5feed::test::fuzz
