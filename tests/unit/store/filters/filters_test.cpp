// SPDX-License-Identifier: Apache-2.0
#include "store/filters/filters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/filters/codecs.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

TEST(FilterPipeline, decodes_what_it_encodes_in_any_order) {
  const std::vector<FilterSpec> stages = {{.id = filter_id::kDeflate, .params = {4}, .name = "gzip"},
                                          {.id = filter_id::kShuffle, .params = {4}, .name = "shuffle"},
                                          {.id = filter_id::kFletcher32, .name = "fletcher32"},
                                          {.id = filter_id::kLz4, .name = "lz4"},
                                          {.id = filter_id::kZstd, .params = {3}, .name = "zstd"},
                                          parse_filters("lzf", 4)[0]};
  for (const std::size_t size : {1U, 4U, 7U, 1000U, 70000U}) {
    const Bytes compressible = test::patterned_bytes(size);
    const Bytes incompressible = test::random_bytes(size);
    std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
    do {
      std::vector<FilterSpec> filters;
      for (const std::size_t stage : order) filters.push_back(stages[stage]);
      const FilterPipeline pipeline(filters, size, 4);
      ASSERT_EQ(decode(pipeline, pipeline.encode(compressible), size), compressible);
      ASSERT_EQ(decode(pipeline, pipeline.encode(incompressible), size), incompressible);
    } while (size <= 7 && std::next_permutation(order.begin(), order.end()));
  }
}

TEST(FilterPipeline, decodes_lz4_in_many_blocks) {
  const FilterPipeline pipeline({{.id = filter_id::kLz4, .params = {1000}, .name = "lz4"}}, 10500, 1);
  const Bytes data = test::patterned_bytes(10500);
  EXPECT_EQ(decode(pipeline, pipeline.encode(data), data.size()), data);
}

TEST(FilterPipeline, takes_the_element_size_where_a_shuffle_does_not_say) {
  const FilterPipeline silent({{.id = filter_id::kShuffle, .name = "shuffle"}}, 16, 8);
  const FilterPipeline explicit_size({{.id = filter_id::kShuffle, .params = {8}, .name = "shuffle"}}, 16, 8);
  const Bytes data = test::patterned_bytes(16);
  EXPECT_EQ(silent.encode(data), explicit_size.encode(data));
}

TEST(FilterPipeline, skips_what_the_mask_names) {
  const std::vector<FilterSpec> filters = parse_filters("shuffle+gzip:4+fletcher32", 4);
  const FilterPipeline pipeline(filters, 400, 4);
  const Bytes data = test::patterned_bytes(400);
  const FilterPipeline without_gzip({filters[0], filters[2]}, 400, 4);
  EXPECT_EQ(decode(pipeline, without_gzip.encode(data), 400, 0b010), data);
  EXPECT_EQ(decode(pipeline, data, 400, 0b111), data);
  EXPECT_TRUE(pipeline.skips_all(0b111));
  EXPECT_FALSE(pipeline.skips_all(0b011));
}

TEST(FilterPipeline, refuses_a_chunk_of_another_size) {
  const FilterPipeline pipeline(parse_filters("gzip:4", 1), 100, 1);
  for (const std::size_t size : {0U, 99U, 101U, 100000U}) {
    const Bytes stored =
        FilterPipeline(parse_filters("gzip:4", 1), size, 1).encode(test::patterned_bytes(size));
    EXPECT_THROW(decode(pipeline, stored, 100), FilterError) << size;
  }
  EXPECT_THROW(decode(pipeline, test::patterned_bytes(99), 100, 1), FilterError);
}

TEST(FilterPipeline, bounds_what_hostile_headers_claim) {
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

TEST(FilterPipeline, refuses_more_filters_than_the_format_allows) {
  const std::vector<FilterSpec> many(33, FilterSpec{.id = filter_id::kDeflate, .name = "gzip"});
  EXPECT_THROW(FilterPipeline(many, 100, 1), FilterError);
}

TEST(FilterPipeline, says_which_filter_refused_the_bytes) {
  const auto message = [](const char* text, const Bytes& stored) {
    return refusal(FilterPipeline(parse_filters(text, 1), 100, 1), stored, 100);
  };
  EXPECT_EQ(message("gzip:4", bytes_of(1, 2, 3)), "deflate: not a valid zlib stream");
  EXPECT_EQ(message("fletcher32", Bytes(104)), "accepted");
  EXPECT_EQ(message("fletcher32", Bytes(104, std::byte{1})), "fletcher32: the checksum does not match");
  EXPECT_EQ(message("fletcher32", Bytes(3)), "fletcher32: 3 bytes are too few to hold a checksum");
  EXPECT_THAT(message("zstd", Bytes(100)), testing::StartsWith("zstd: "));
  EXPECT_THAT(message("lz4", Bytes(3)), testing::StartsWith("lz4: "));
}

TEST(FilterPipeline, leaves_out_a_shuffle_of_single_bytes) {
  const FilterPipeline pipeline(parse_filters("shuffle+gzip:4", 1), 400, 1);
  const Bytes data = test::patterned_bytes(400);
  EXPECT_EQ(decode(pipeline, pipeline.encode(data), 400), data);
  EXPECT_TRUE(pipeline.skips_all(0b10));
  EXPECT_FALSE(pipeline.skips_all(0b01));
}

}  // namespace
}  // namespace h5feed::test
