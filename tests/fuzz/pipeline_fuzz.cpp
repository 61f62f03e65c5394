// SPDX-License-Identifier: Apache-2.0
// Pipelines of up to seven filters. An input is the number of filters with a bit that asks for a round
// trip, per filter its kind and a parameter, the chunk's size (u16), a mask (u32), then the bytes: stored
// ones to decode, or a chunk to encode and to decode again.
#include <algorithm>
#include <array>

#include "fuzz/check_decode.hpp"
#include "support/files/scaleoffset_chunk.hpp"

namespace h5feed::test::fuzz {
namespace {

constexpr unsigned kCountMask = 7;
constexpr unsigned kRoundTrip = 0x80;
// libbz2 needs milliseconds for a chunk, and more than one of them finds nothing that one does not.
constexpr std::size_t kMaxBzip2 = 1;

enum Kind : unsigned {
  k_gzip,
  k_shuffle,
  k_fletcher32,
  k_lzf,
  k_lz4,
  k_zstd,
  k_blosc,
  k_bitshuffle,
  k_szip,
  k_bzip2,
  k_scaleoffset,
  k_nbit
};
constexpr unsigned kKinds = 12;

FilterSpec filter(unsigned kind, unsigned parameter) {
  constexpr std::array<const char*, 5> kBlosc = {"blosc:blosclz:1", "blosc:lz4:1", "blosc:lz4hc:1",
                                                 "blosc:zlib:1", "blosc:zstd:1"};
  switch (kind) {
    case k_gzip:
      return parse_filters("gzip:1", 1)[0];
    case k_shuffle:
      return {.id = filter_id::kShuffle, .params = {1 + parameter}, .name = "shuffle"};
    case k_fletcher32:
      return parse_filters("fletcher32", 1)[0];
    case k_lzf:
      return parse_filters("lzf", 1)[0];
    case k_lz4:
      return {.id = filter_id::kLz4, .params = {parameter * 32}, .name = "lz4"};
    case k_zstd:
      return parse_filters("zstd:1", 1)[0];
    case k_blosc:
      return parse_filters(kBlosc[parameter % kBlosc.size()], 1 + parameter / kBlosc.size())[0];
    case k_bitshuffle:
      return {.id = filter_id::kBitshuffle,
              .params = {0, 4, 1 + parameter % 8,
                         std::array{0U, 8U, 24U, 64U, 256U, 512U, 1024U, 1792U}[parameter / 32],
                         std::array{0U, 2U, 3U}[parameter / 8 % 3]},
              .name = "bitshuffle"};
    case k_szip:
      return {.id = filter_id::kSzip,
              .params = {parameter, 2 + parameter % 16 * 2, 8U << parameter / 64, 64},
              .name = "szip"};
    case k_scaleoffset: {
      const std::size_t element_bytes = std::size_t{1} << parameter % 4;
      return {.id = filter_id::kScaleOffset,
              .params = scaleoffset_params({.elements = (512 - parameter / 32 * 64) / element_bytes,
                                            .element_bytes = element_bytes,
                                            .big_endian = (parameter & 16U) != 0}),
              .name = "scaleoffset"};
    }
    case k_nbit: {
      const unsigned element_bytes = 1U << parameter % 4;
      return {.id = filter_id::kNbit,
              .params = {8, 0, (512 - parameter / 32 * 64) / element_bytes, 1, element_bytes,
                         parameter / 16 % 2, 1 + parameter % 7, 1},
              .name = "nbit"};
    }
    default:
      return parse_filters("bzip2:1", 1)[0];
  }
}

void round_trip(const FilterPipeline& pipeline, std::span<const std::byte> bytes, std::size_t chunk_bytes) {
  Bytes chunk(chunk_bytes);
  std::copy_n(bytes.begin(), std::min(bytes.size(), chunk_bytes), chunk.begin());
  Bytes stored;
  try {
    stored = pipeline.encode(chunk);
  } catch (const FilterError&) {
    return;  // no encoder, or no whole number of elements
  }
  require(stored.size() <= pipeline.max_encoded_bytes(), "an encoder keeps its bound");
  Bytes back(chunk_bytes);
  DecodeScratch scratch;
  try {
    pipeline.decode(stored, 0, back, scratch);
  } catch (const FilterError& error) {
    require(false, error.what());
  }
  require(back == chunk, "decoding undoes encoding");
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const unsigned head = reader.u8();
  std::vector<FilterSpec> filters;
  std::size_t bzip2 = 0;
  for (unsigned i = 0; i < (head & kCountMask); ++i) {
    const unsigned kind = reader.u8() % kKinds;
    filters.push_back(filter(kind, reader.u8()));
    if (kind == k_bzip2 && ++bzip2 > kMaxBzip2) return;
    if (!FilterPipeline::supports(filters.back())) return;
  }
  const std::size_t chunk_bytes = 1 + reader.u16() % kMaxBytes;
  const std::uint32_t mask = reader.u32();
  const FilterPipeline pipeline(std::move(filters), chunk_bytes, 1);
  if ((head & kRoundTrip) != 0) {
    round_trip(pipeline, reader.rest(), chunk_bytes);
  } else {
    check_decode(pipeline, reader.rest(), mask, chunk_bytes);
  }
}

std::vector<Bytes> seeds() {
  constexpr std::size_t kChunkBytes = 512;
  Bytes chunk(kChunkBytes);
  for (std::size_t i = 0; i < kChunkBytes; ++i) chunk[i] = static_cast<std::byte>(i / 16);
  std::vector<Bytes> result;
  const std::vector<std::vector<unsigned>> pipelines = {{k_shuffle, k_gzip, k_fletcher32},
                                                        {k_fletcher32, k_zstd},
                                                        {k_bitshuffle, k_lz4},
                                                        {k_lzf, k_lz4, k_blosc},
                                                        {k_shuffle, k_bzip2},
                                                        {k_szip},
                                                        {k_scaleoffset},
                                                        {k_nbit},
                                                        {}};
  for (const std::vector<unsigned>& kinds : pipelines) {
    for (const bool round_trip : {false, true}) {
      constexpr unsigned kParameter = 3;
      Writer writer;
      writer.u8(static_cast<unsigned>(kinds.size()) | (round_trip ? kRoundTrip : 0U));
      std::vector<FilterSpec> filters;
      for (const unsigned kind : kinds) {
        filters.push_back(filter(kind, kParameter));
        writer.u8(kind).u8(kParameter);
      }
      writer.u16(kChunkBytes - 1).u32(0);
      const bool encodes = std::all_of(filters.begin(), filters.end(), FilterPipeline::encodes);
      Bytes stored = chunk;
      if (!round_trip && encodes) stored = FilterPipeline(filters, kChunkBytes, 1).encode(chunk);
      if (kinds == std::vector<unsigned>{k_scaleoffset}) {
        stored = scaleoffset_chunk(5, 3, std::vector<std::uint64_t>(filters[0].params[2], 17));
      }
      result.push_back(writer.bytes(stored).done());
    }
  }
  return result;
}

}  // namespace h5feed::test::fuzz
