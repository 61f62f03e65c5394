#include "store/filters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "h5feed/error.hpp"
#include "store/byte_order.hpp"
#include "store/filter_codecs.hpp"
#include "store/fletcher32.hpp"
#include "store/shuffle.hpp"
#include "support/h5_test_file.hpp"

namespace h5feed {
namespace {

using Bytes = std::vector<std::byte>;

template <typename... Values>
Bytes bytes_of(Values... values) {
  return {static_cast<std::byte>(values)...};
}

std::vector<unsigned> ids(const std::vector<FilterSpec>& filters) {
  std::vector<unsigned> result;
  for (const FilterSpec& filter : filters) result.push_back(filter.id);
  return result;
}

// Decodes into a buffer of exactly the chunk's size, so that a sanitizer sees any byte beyond.
Bytes decode(const FilterPipeline& pipeline, std::span<const std::byte> stored, std::size_t chunk_bytes,
             std::uint32_t mask = 0) {
  DecodeScratch scratch;
  Bytes out(chunk_bytes);
  const Bytes exact(stored.begin(), stored.end());
  pipeline.decode(exact, mask, out, scratch);
  return out;
}

TEST(FilterGrammar, ReadsEveryForm) {
  EXPECT_TRUE(parse_filters("none", 1).empty());
  EXPECT_EQ(ids(parse_filters("gzip:4", 1)), (std::vector<unsigned>{1}));
  EXPECT_EQ(ids(parse_filters("shuffle+gzip:9", 4)), (std::vector<unsigned>{2, 1}));
  EXPECT_EQ(ids(parse_filters("lz4+fletcher32", 4)), (std::vector<unsigned>{32004, 3}));
  EXPECT_EQ(ids(parse_filters("shuffle+zstd:22+fletcher32", 4)), (std::vector<unsigned>{2, 32015, 3}));
  EXPECT_EQ(ids(parse_filters("fletcher32", 4)), (std::vector<unsigned>{3}));
  EXPECT_EQ(parse_filters("shuffle+gzip:0", 4)[0].params, (std::vector<unsigned>{4}));
  EXPECT_EQ(parse_filters("gzip", 4)[0].params, (std::vector<unsigned>{4}));
  EXPECT_EQ(parse_filters("zstd", 4)[0].params, (std::vector<unsigned>{3}));
}

TEST(FilterGrammar, PrintsWhatItReads) {
  for (const char* text :
       {"none", "gzip:4", "shuffle+gzip:1", "lz4", "shuffle+zstd:19+fletcher32", "fletcher32"}) {
    EXPECT_EQ(format_filters(parse_filters(text, 2)), text);
  }
}

TEST(FilterGrammar, RefusesEverythingElseNamingWhatIsAccepted) {
  for (const char* text : {"", "gzip:10", "gzip:", "gzip:x", "gzip:-1", "zstd:0", "zstd:23", "lz4:1",
                           "shuffle", "shuffle+fletcher32", "gzip:4+shuffle", "gzip:4+", "+gzip:4",
                           "none+fletcher32", "fletcher32+gzip:4", "gzip:4+fletcher32+fletcher32", "lzma"}) {
    EXPECT_THROW(parse_filters(text, 1), OptionError) << text;
  }
  try {
    parse_filters("lzma", 1);
    FAIL() << "accepted";
  } catch (const OptionError& error) {
    EXPECT_STREQ(
        error.what(),
        "filter \"lzma\": accepted are none and [shuffle+]gzip:0..9|lz4|zstd:1..22[+fletcher32], for "
        "example shuffle+gzip:4");
  }
}

TEST(Fletcher32, MatchesKnownSums) {
  EXPECT_EQ(fletcher32({}), 0U);
  // Words 0x0102, 0x0304: sums 0x0406 and 0x0102 + 0x0406.
  EXPECT_EQ(fletcher32(bytes_of(1, 2, 3, 4)), 0x05080406U);
  // An odd last byte counts as the high half of a word.
  EXPECT_EQ(fletcher32(bytes_of(1, 2, 3)), 0x05040402U);
}

TEST(Fletcher32, FoldsTheCarryInsteadOfTakingTheRemainder) {
  EXPECT_EQ(fletcher32(Bytes(1000, std::byte{0xff})), 0xffffffffU);
}

TEST(Fletcher32, AcceptsTheSumOfOldLibraries) {
  const Bytes data = bytes_of(1, 2, 3, 4);
  EXPECT_TRUE(fletcher32_matches(data, 0x05080406U));
  EXPECT_TRUE(fletcher32_matches(data, 0x08050604U));
  EXPECT_FALSE(fletcher32_matches(data, 0x05080407U));
}

TEST(Shuffle, SimdEqualsScalarForAllSizes) {
  for (const std::size_t element_bytes : {1U, 2U, 3U, 4U, 5U, 8U, 16U}) {
    for (std::size_t size = 0; size < 400; ++size) {
      const Bytes original = test::random_bytes(size, static_cast<unsigned>(size));
      Bytes shuffled(size);
      Bytes simd(size);
      Bytes scalar(size);
      shuffle_bytes(original, element_bytes, shuffled);
      unshuffle_bytes(shuffled, element_bytes, simd);
      unshuffle_bytes_scalar(shuffled, element_bytes, scalar);
      ASSERT_EQ(simd, original) << element_bytes << " bytes an element, " << size << " in all";
      ASSERT_EQ(scalar, original) << element_bytes << " bytes an element, " << size << " in all";
    }
  }
}

TEST(Shuffle, CopiesTheTail) {
  Bytes out(7);
  shuffle_bytes(bytes_of(1, 2, 3, 4, 5, 6, 7), 3, out);
  EXPECT_EQ(out, bytes_of(1, 4, 2, 5, 3, 6, 7));
}

TEST(ByteOrder, ReversesEachElement) {
  Bytes bytes = bytes_of(1, 2, 3, 4, 5, 6, 7, 8, 9);
  swap_byte_order(bytes, 1);
  EXPECT_EQ(bytes, bytes_of(1, 2, 3, 4, 5, 6, 7, 8, 9));
  swap_byte_order(bytes, 2);
  EXPECT_EQ(bytes, bytes_of(2, 1, 4, 3, 6, 5, 8, 7, 9));
  swap_byte_order(bytes, 4);
  EXPECT_EQ(bytes, bytes_of(3, 4, 1, 2, 7, 8, 5, 6, 9));
  swap_byte_order(bytes, 8);
  EXPECT_EQ(bytes, bytes_of(6, 5, 8, 7, 2, 1, 4, 3, 9));
}

TEST(FilterPipeline, DecodesWhatItEncodesInAnyOrder) {
  const std::vector<FilterSpec> stages = {{.id = filter_id::kDeflate, .params = {4}, .name = "gzip"},
                                          {.id = filter_id::kShuffle, .params = {4}, .name = "shuffle"},
                                          {.id = filter_id::kFletcher32, .name = "fletcher32"},
                                          {.id = filter_id::kLz4, .name = "lz4"},
                                          {.id = filter_id::kZstd, .params = {3}, .name = "zstd"}};
  for (const std::size_t size : {1U, 4U, 7U, 1000U, 70000U}) {
    const Bytes compressible = test::patterned_bytes(size);
    const Bytes incompressible = test::random_bytes(size);
    std::vector<std::size_t> order = {0, 1, 2, 3, 4};
    do {
      std::vector<FilterSpec> filters;
      for (const std::size_t stage : order) filters.push_back(stages[stage]);
      const FilterPipeline pipeline(filters, size, 4);
      ASSERT_EQ(decode(pipeline, pipeline.encode(compressible), size), compressible);
      ASSERT_EQ(decode(pipeline, pipeline.encode(incompressible), size), incompressible);
    } while (size <= 7 && std::next_permutation(order.begin(), order.end()));
  }
}

TEST(FilterPipeline, DecodesLz4InManyBlocks) {
  const FilterPipeline pipeline({{.id = filter_id::kLz4, .params = {1000}, .name = "lz4"}}, 10500, 1);
  const Bytes data = test::patterned_bytes(10500);
  EXPECT_EQ(decode(pipeline, pipeline.encode(data), data.size()), data);
}

TEST(FilterPipeline, TakesTheElementSizeWhereAShuffleDoesNotSay) {
  const FilterPipeline silent({{.id = filter_id::kShuffle, .name = "shuffle"}}, 16, 8);
  const FilterPipeline explicit_size({{.id = filter_id::kShuffle, .params = {8}, .name = "shuffle"}}, 16, 8);
  const Bytes data = test::patterned_bytes(16);
  EXPECT_EQ(silent.encode(data), explicit_size.encode(data));
}

TEST(FilterPipeline, SkipsWhatTheMaskNames) {
  const std::vector<FilterSpec> filters = parse_filters("shuffle+gzip:4+fletcher32", 4);
  const FilterPipeline pipeline(filters, 400, 4);
  const Bytes data = test::patterned_bytes(400);
  const FilterPipeline without_gzip({filters[0], filters[2]}, 400, 4);
  EXPECT_EQ(decode(pipeline, without_gzip.encode(data), 400, 0b010), data);
  EXPECT_EQ(decode(pipeline, data, 400, 0b111), data);
  EXPECT_TRUE(pipeline.skips_all(0b111));
  EXPECT_FALSE(pipeline.skips_all(0b011));
}

TEST(FilterPipeline, RefusesAChunkOfAnotherSize) {
  const FilterPipeline pipeline(parse_filters("gzip:4", 1), 100, 1);
  for (const std::size_t size : {0U, 99U, 101U, 100000U}) {
    const Bytes stored =
        FilterPipeline(parse_filters("gzip:4", 1), size, 1).encode(test::patterned_bytes(size));
    EXPECT_THROW(decode(pipeline, stored, 100), FilterError) << size;
  }
  EXPECT_THROW(decode(pipeline, test::patterned_bytes(99), 100, 1), FilterError);
}

TEST(FilterPipeline, BoundsWhatHostileHeadersClaim) {
  // Total of 2^56 bytes in blocks of 2^24.
  const Bytes header = bytes_of(1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
  EXPECT_THROW(decode(FilterPipeline(parse_filters("lz4", 1), 100, 1), header, 100), FilterError);
  // As an inner stage, where the size is not known beforehand.
  const std::vector<FilterSpec> twice(32, FilterSpec{.id = filter_id::kDeflate, .name = "gzip"});
  const FilterPipeline nested(twice, 1000, 1);
  EXPECT_LT(nested.scratch_bytes(), 1024U * 1024U);
  const Bytes bomb = encode_deflate(Bytes(100 * 1024 * 1024), 9);
  EXPECT_THROW(decode(nested, bomb, 1000), FilterError);
}

TEST(FilterPipeline, RefusesMoreFiltersThanTheFormatAllows) {
  const std::vector<FilterSpec> many(33, FilterSpec{.id = filter_id::kDeflate, .name = "gzip"});
  EXPECT_THROW(FilterPipeline(many, 100, 1), FilterError);
}

TEST(FilterPipeline, SaysWhichFilterRefusedTheBytes) {
  const auto message = [](const char* text, const Bytes& stored) -> std::string {
    try {
      decode(FilterPipeline(parse_filters(text, 1), 100, 1), stored, 100);
    } catch (const FilterError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("gzip:4", bytes_of(1, 2, 3)), "deflate: not a valid zlib stream");
  EXPECT_EQ(message("fletcher32", Bytes(104)), "accepted");
  EXPECT_EQ(message("fletcher32", Bytes(104, std::byte{1})), "fletcher32: the checksum does not match");
  EXPECT_EQ(message("fletcher32", Bytes(3)), "fletcher32: 3 bytes are too few to hold a checksum");
  EXPECT_THAT(message("zstd", Bytes(100)), testing::StartsWith("zstd: "));
  EXPECT_THAT(message("lz4", Bytes(3)), testing::StartsWith("lz4: "));
}

// Damaged streams decode to a chunk's size or throw: nothing else, whatever the bytes.
class DamagedStreams : public testing::TestWithParam<const char*> {};

TEST_P(DamagedStreams, ThrowOrDecodeButNeverCrash) {
  constexpr std::size_t kChunkBytes = 3000;
  const FilterPipeline pipeline(parse_filters(GetParam(), 4), kChunkBytes, 4);
  std::mt19937 random(20240501);
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  std::size_t refused = 0;
  for (unsigned round = 0; round < 2500; ++round) {
    const Bytes chunk =
        round % 2 == 0 ? test::patterned_bytes(kChunkBytes, round) : test::random_bytes(kChunkBytes, round);
    Bytes stored = pipeline.encode(chunk);
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
  EXPECT_GT(refused, 1000U);
}

INSTANTIATE_TEST_SUITE_P(All, DamagedStreams,
                         testing::Values("gzip:4", "gzip:0", "lz4", "zstd:3", "shuffle+gzip:1", "shuffle+lz4",
                                         "gzip:6+fletcher32", "shuffle+zstd:1+fletcher32"),
                         [](const auto& pipeline) {
                           std::string name = pipeline.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '+' || c == ':'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace h5feed
