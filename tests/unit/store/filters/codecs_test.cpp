// SPDX-License-Identifier: Apache-2.0
// Each compressor by itself: round trips, hostile lengths, threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <random>
#include <thread>

#include "store/filters/codecs.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

// Every pipeline that has an encoder.
const std::vector<const char*> kPipelines = {"gzip:4",
                                             "gzip:0",
                                             "lz4",
                                             "zstd:3",
                                             "lzf",
                                             "bzip2:1",
                                             "bitshuffle:lz4",
                                             "bitshuffle:zstd:1",
                                             "bitshuffle+lz4",
                                             "blosc:blosclz:9",
                                             "blosc:lz4:5",
                                             "blosc:lz4hc:1",
                                             "blosc:zlib:1",
                                             "blosc:zstd:1",
                                             "shuffle+gzip:1",
                                             "shuffle+lz4",
                                             "gzip:6+fletcher32",
                                             "shuffle+zstd:1+fletcher32",
                                             "blosc:lz4+fletcher32"};

std::string pipeline_name(const testing::TestParamInfo<const char*>& info) { return test_name(info.param); }

class EveryPipeline : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, EveryPipeline, testing::ValuesIn(kPipelines), pipeline_name);

TEST_P(EveryPipeline, decodes_what_it_encodes) {
  for (const std::size_t element_bytes : {1U, 2U, 3U, 4U, 8U}) {
    for (const std::size_t elements : {1U, 7U, 8U, 100U, 1031U, 70000U}) {
      const std::size_t size = elements * element_bytes;
      const FilterPipeline pipeline(parse_filters(GetParam(), element_bytes), size, element_bytes);
      for (const Bytes& chunk : {test::patterned_bytes(size), test::random_bytes(size), Bytes(size)}) {
        const Bytes stored = pipeline.encode(chunk);
        ASSERT_LE(stored.size(), pipeline.max_encoded_bytes()) << size << " bytes";
        ASSERT_EQ(decode(pipeline, stored, size), chunk) << size << " bytes";
      }
    }
  }
}

TEST_P(EveryPipeline, encodes_equal_bytes_equally) {
  const Bytes chunk = test::patterned_bytes(10000);
  const FilterPipeline pipeline(parse_filters(GetParam(), 4), chunk.size(), 4);
  const Bytes first = pipeline.encode(chunk);
  pipeline.encode(test::random_bytes(10000));
  EXPECT_EQ(pipeline.encode(chunk), first);
}

// A shorter stream is refused, unless what is missing was padding.
TEST_P(EveryPipeline, refuses_a_stream_cut_anywhere) {
  for (const Bytes& chunk : {test::patterned_bytes(600), test::random_bytes(600)}) {
    const FilterPipeline pipeline(parse_filters(GetParam(), 4), chunk.size(), 4);
    const Bytes stored = pipeline.encode(chunk);
    for (std::size_t size = 0; size < stored.size(); ++size) {
      try {
        ASSERT_EQ(decode(pipeline, std::span(stored).first(size), chunk.size()), chunk) << size << " bytes";
      } catch (const FilterError& error) {
        ASSERT_STRNE(error.what(), "");
      }
    }
  }
}

TEST_P(EveryPipeline, refuses_a_stream_for_another_chunk) {
  const FilterPipeline expected(parse_filters(GetParam(), 4), 600, 4);
  for (const std::size_t size : {4U, 596U, 604U, 60000U}) {
    const Bytes stored =
        FilterPipeline(parse_filters(GetParam(), 4), size, 4).encode(test::patterned_bytes(size));
    EXPECT_THROW(decode(expected, stored, 600), FilterError) << size;
  }
}

// Damaged streams decode to a chunk's size or throw: nothing else, whatever the bytes.
TEST_P(EveryPipeline, throws_or_decodes_damaged_streams_but_never_crashes) {
  constexpr std::size_t kChunkBytes = 3000;
  const FilterPipeline pipeline(parse_filters(GetParam(), 4), kChunkBytes, 4);
  std::mt19937 random(20240501);
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  std::vector<Bytes> encoded;
  for (unsigned seed = 0; seed < 8; ++seed) {
    encoded.push_back(pipeline.encode(test::patterned_bytes(kChunkBytes, seed)));
    encoded.push_back(pipeline.encode(test::random_bytes(kChunkBytes, seed)));
  }
  std::size_t refused = 0;
  for (std::size_t round = 0; round < 2500; ++round) {
    Bytes stored = encoded[round % encoded.size()];
    for (std::size_t flips = 1 + below(4); flips > 0; --flips) {
      // Headers matter most: half of the damage falls on the first bytes.
      const std::size_t at =
          below(2) == 0 ? below(std::min<std::size_t>(stored.size(), 24)) : below(stored.size());
      stored[at] ^= static_cast<std::byte>(1 + below(255));
    }
    if (below(3) == 0) stored.resize(below(stored.size() + 1));
    if (below(8) == 0) stored.resize(stored.size() + below(64));
    try {
      EXPECT_EQ(decode(pipeline, stored, kChunkBytes, static_cast<std::uint32_t>(below(3))).size(),
                kChunkBytes);
    } catch (const FilterError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 700U);
}

TEST_P(EveryPipeline, decodes_on_many_threads_at_once) {
  constexpr int kThreads = 4;
  const FilterPipeline pipeline(parse_filters(GetParam(), 4), 20000, 4);
  std::vector<Bytes> chunks;
  std::vector<Bytes> stored;
  for (unsigned seed = 0; seed < kThreads; ++seed) {
    chunks.push_back(test::patterned_bytes(20000, seed));
    stored.push_back(pipeline.encode(chunks.back()));
  }
  std::barrier start(kThreads);
  std::array<std::size_t, kThreads> wrong{};
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      DecodeScratch scratch;
      Bytes out(20000);
      start.arrive_and_wait();
      for (std::size_t round = 0; round < 40; ++round) {
        const std::size_t which = (round + thread) % kThreads;
        pipeline.decode(stored[which], 0, out, scratch);
        if (out != chunks[which]) ++wrong[thread];
      }
    });
  }
  threads.clear();
  EXPECT_THAT(wrong, testing::Each(0U));
}

TEST(Blosc, names_what_it_cannot_read) {
  const FilterPipeline pipeline(parse_filters("blosc:lz4", 1), 1000, 1);
  const Bytes stored = pipeline.encode(test::patterned_bytes(1000));
  const auto with = [&stored](std::size_t at, unsigned value) {
    Bytes changed = stored;
    changed[at] = static_cast<std::byte>(value);
    return changed;
  };
  EXPECT_EQ(refusal(pipeline, with(0, 5), 1000),
            "blosc: version 5 of the format is not version 1 or 2 (blosc2 is another filter, 32026)");
  EXPECT_EQ(refusal(pipeline, with(2, 7U << 5), 1000), "blosc: compressed format 7 is unknown");
  EXPECT_EQ(refusal(pipeline, with(7, 0x7f), 1000),
            "blosc: the header claims 2130707432 bytes, a chunk has 1000");
  EXPECT_EQ(refusal(pipeline, with(11, 0x7f), 1000), "blosc: a block size of 2130707432 bytes is impossible");
  EXPECT_THAT(refusal(pipeline, with(15, 0x7f), 1000), testing::HasSubstr("stored bytes, there are"));
  EXPECT_EQ(refusal(pipeline, bytes_of(2, 1), 1000), "blosc: 2 bytes are too few to hold a header");
}

TEST(Bitshuffle, bounds_what_hostile_headers_claim) {
  const FilterPipeline pipeline(parse_filters("bitshuffle:lz4", 4), 1000, 4);
  // Total of 2^56 bytes; then a block of 4 bytes, and one that claims 2^31 stored bytes.
  EXPECT_EQ(refusal(pipeline, bytes_of(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0), 1000),
            "bitshuffle: the header claims 72057594037927936 bytes, a chunk has 1000");
  EXPECT_EQ(refusal(pipeline, bytes_of(0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 4), 1000),
            "bitshuffle: a block of 4 bytes is no multiple of 8 elements");
  EXPECT_EQ(refusal(pipeline, bytes_of(0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 32, 0, 128, 0, 0, 0), 1000),
            "bitshuffle: 0 bytes are left where 2147483648 should follow");
  EXPECT_EQ(refusal(pipeline, bytes_of(0, 0, 0, 0, 0, 0, 3, 231, 0, 0, 32, 0), 1000),
            "bitshuffle: 999 bytes are no whole number of elements of 4");
}

TEST(Bitshuffle, decodes_in_blocks_of_the_size_in_the_header) {
  const Bytes chunk = test::patterned_bytes(10000);
  FilterSpec written = parse_filters("bitshuffle:zstd", 4)[0];
  written.params[3] = 512;
  FilterSpec stated = written;
  stated.params[3] = 0;
  EXPECT_EQ(
      decode(FilterPipeline({stated}, 10000, 4), FilterPipeline({written}, 10000, 4).encode(chunk), 10000),
      chunk);
}

// Blocks of 8 bytes at least: what cannot be compressed then grows most.
TEST(Bitshuffle, of_small_blocks_comes_back_whatever_it_grows_to) {
  for (const unsigned element_bytes : {1U, 2U, 4U, 8U}) {
    for (const unsigned block_elements : {8U, 16U, 56U}) {
      for (const unsigned codec : {2U, 3U}) {
        const FilterSpec small{.id = filter_id::kBitshuffle,
                               .params = {0, 4, element_bytes, block_elements, codec},
                               .name = "bitshuffle"};
        const FilterSpec gzip = parse_filters("gzip:1", 1)[0];
        const Bytes chunk = test::random_bytes(3000 * element_bytes + 3 * element_bytes);
        for (const auto& filters : {std::vector{small}, {small, gzip}}) {
          const FilterPipeline pipeline(filters, chunk.size(), element_bytes);
          const Bytes stored = pipeline.encode(chunk);
          EXPECT_LE(stored.size(), pipeline.max_encoded_bytes());
          EXPECT_EQ(decode(pipeline, stored, chunk.size()), chunk)
              << element_bytes << ", " << block_elements << ", " << codec;
        }
      }
    }
  }
}

TEST(Bitshuffle, that_is_claimed_many_times_needs_no_more_memory_than_that) {
  const FilterSpec small{.id = filter_id::kBitshuffle, .params = {0, 4, 1, 8, 2}, .name = "bitshuffle"};
  const FilterPipeline pipeline(std::vector<FilterSpec>(32, small), 1 << 20, 1);
  EXPECT_LE(pipeline.max_encoded_bytes(), std::size_t{9} << 20);
}

TEST(UnsupportedFilters, say_why) {
  const auto reason = [](unsigned id, std::vector<unsigned> params) {
    return unsupported_reason({.id = id, .params = std::move(params)});
  };
  EXPECT_EQ(reason(filter_id::kBitshuffle, {0, 4}), "lacks the size of an element among its parameters");
  EXPECT_EQ(reason(filter_id::kBitshuffle, {0, 4, 2, 12}),
            "has blocks that are no multiple of 8 elements (12)");
  EXPECT_EQ(reason(filter_id::kBitshuffle, {0, 4, 2, 0, 1}),
            "compresses with an unknown codec (1; known are 0 none, 2 lz4, 3 zstd)");
  EXPECT_EQ(reason(filter_id::kBlosc, {2, 2, 1, 0, 5, 1, 99}),
            "compresses with a codec that the installed libblosc does not support (99)");
  EXPECT_EQ(reason(filter_id::kSzip, {169, 8, 25, 80}),
            "has parameters (169, 8, 25, 80) that its encoder does not write");
  EXPECT_EQ(reason(filter_id::kNbit, {}), "has parameters () that its encoder does not write");
  EXPECT_EQ(reason(32024, {}), "is not built in");
}

TEST(Lzf, refuses_an_empty_stream) {
  EXPECT_EQ(refusal(FilterPipeline(parse_filters("lzf", 1), 10, 1), {}, 10), "lzf: 0 bytes are no stream");
}

TEST(Lzf, keeps_matches_at_every_length_and_distance) {
  for (const std::size_t distance : {1U, 2U, 300U, 8191U, 8192U, 8193U}) {
    for (const std::size_t length : {2U, 3U, 8U, 9U, 263U, 264U, 265U, 600U}) {
      Bytes chunk = test::random_bytes(distance);
      for (std::size_t i = 0; i < length; ++i) chunk.push_back(chunk[chunk.size() - distance]);
      const Bytes stored = encode_lzf(chunk);
      Bytes back(chunk.size());
      ASSERT_EQ(decode_lzf(stored, back), chunk.size()) << distance << ", " << length;
      ASSERT_EQ(back, chunk) << distance << ", " << length;
    }
  }
}

TEST(Szip, bounds_what_hostile_headers_claim) {
  const FilterPipeline pipeline({{.id = filter_id::kSzip, .params = {169, 8, 8, 80}, .name = "szip"}}, 80, 1);
  EXPECT_EQ(refusal(pipeline, bytes_of(255, 255, 255, 255, 0), 80),
            "szip: the header claims 4294967295 bytes, a chunk has 80");
  // libaec would call this want of memory.
  const FilterPipeline wide({{.id = filter_id::kSzip, .params = {141, 16, 16, 16}, .name = "szip"}}, 80, 2);
  EXPECT_EQ(refusal(wide, bytes_of(51, 0, 0, 0, 7, 7), 80),
            "szip: 51 bytes are no whole number of pixels of 2");
  EXPECT_EQ(refusal(pipeline, bytes_of(80, 0, 0), 80), "szip: 3 bytes are left where 4 should follow");
}

TEST(Szip, decodes_nothing_to_nothing) {
  DecodeScratch scratch;
  std::array<std::byte, 80> out{};
  const FilterPipeline szip_inside(
      {{.id = filter_id::kSzip, .params = {141, 16, 16, 77}, .name = "szip"}, parse_filters("lzf", 1)[0]}, 80,
      1);
  EXPECT_THROW(szip_inside.decode(encode_lzf(Bytes(4)), 0, out, scratch), FilterError);
}

TEST(FilterSupport, excludes_parameters_that_are_not_honoured) {
  const auto supports = [](unsigned id, std::vector<unsigned> params) {
    return FilterPipeline::supports({.id = id, .params = std::move(params)});
  };
  EXPECT_TRUE(supports(filter_id::kBitshuffle, {0, 4, 2}));
  EXPECT_TRUE(supports(filter_id::kBitshuffle, {0, 4, 2, 8}));
  EXPECT_TRUE(supports(filter_id::kBitshuffle, {0, 4, 2, 256, 2}));
  EXPECT_FALSE(supports(filter_id::kBitshuffle, {0, 4}));
  EXPECT_FALSE(supports(filter_id::kBitshuffle, {0, 4, 0}));
  EXPECT_FALSE(supports(filter_id::kBitshuffle, {0, 4, 2, 0, 1}));
  EXPECT_FALSE(supports(filter_id::kBitshuffle, {0, 4, 2, 0, 4}));
  EXPECT_FALSE(supports(filter_id::kBitshuffle, {0, 4, 2, 12}));
  EXPECT_TRUE(supports(filter_id::kBitshuffle, {0, 4, 2, 8, 2}));
  EXPECT_TRUE(supports(filter_id::kSzip, {169, 8, 8, 80}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 8, 8}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 0, 8, 80}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 7, 8, 80}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 34, 8, 80}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 8, 25, 80}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 8, 8, 4}));
  EXPECT_FALSE(supports(filter_id::kSzip, {169, 8, 8, 4097}));
  EXPECT_TRUE(supports(filter_id::kBlosc, {}));
  EXPECT_TRUE(supports(filter_id::kBlosc, {2, 2, 4, 100, 5, 1, 5}));
  EXPECT_FALSE(supports(filter_id::kBlosc, {2, 2, 4, 100, 5, 1, 6}));
  EXPECT_FALSE(supports(32024, {}));
}

}  // namespace
}  // namespace h5feed::test
