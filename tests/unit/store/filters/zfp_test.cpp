// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32013 against libzfp: every type, rank and mode, and what parameters and chunks may claim.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "store/format/byte_order.hpp"
#include "store/read/read_all.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/zfp_chunk.hpp"

namespace h5feed::test {
namespace {

using Mode = ZfpSetUp::Mode;

FilterPipeline pipeline(const std::vector<unsigned>& params, std::size_t bytes) {
  return {{{.id = filter_id::kZfp, .optional = true, .params = params, .name = "zfp"}}, bytes, 4};
}

constexpr int kLossless = -1075;  // an exponent

std::vector<ZfpSetUp> set_ups() {
  std::vector<ZfpSetUp> result;
  for (const ZfpValues type : {ZfpValues::i32, ZfpValues::i64, ZfpValues::f32, ZfpValues::f64}) {
    for (const std::vector<std::size_t>& shape :
         {std::vector<std::size_t>{1}, {37}, {9, 10}, {5, 6, 7}, {3, 4, 5, 6}}) {
      for (const auto& [mode, value] : {std::pair{Mode::reversible, 0.0},
                                        {Mode::rate, 7.0},
                                        {Mode::rate, 30.0},
                                        {Mode::precision, 13.0},
                                        {Mode::accuracy, 1e-3},
                                        {Mode::expert, 0.0}}) {
        const bool floats = type == ZfpValues::f32 || type == ZfpValues::f64;
        if (floats || mode != Mode::accuracy) result.push_back({shape, type, mode, value});
      }
      result.push_back({shape, type, Mode::expert, 0, {1, 16658, 20, kLossless}});
    }
  }
  return result;
}

TEST(ZfpDecoder, decodes_what_libzfp_decodes) {
  for (const ZfpSetUp& set_up : set_ups()) {
    const ZfpChunk chunk = zfp_chunk(set_up);
    SCOPED_TRACE(testing::Message() << static_cast<int>(set_up.type) << " "
                                    << testing::PrintToString(set_up.shape) << " "
                                    << static_cast<int>(set_up.mode) << " " << set_up.value);
    EXPECT_EQ(decode(pipeline(chunk.params, chunk.decoded.size()), chunk.stored, chunk.decoded.size()),
              chunk.decoded);
  }
}

TEST(ZfpDecoder, keeps_the_byte_order_of_a_writer_that_had_the_other) {
  const ZfpChunk chunk = zfp_chunk({{9, 10}, ZfpValues::f32});
  std::vector<unsigned> params = chunk.params;
  for (std::size_t i = 1; i < params.size(); ++i) params[i] = __builtin_bswap32(params[i]);
  Bytes swapped = chunk.decoded;
  swap_byte_order(swapped, 4);
  EXPECT_EQ(decode(pipeline(params, swapped.size()), chunk.stored, swapped.size()), swapped);
}

TEST(ZfpDecoder, refuses_chunks_that_end_early_and_other_sizes) {
  const ZfpChunk chunk = zfp_chunk({{9, 10}, ZfpValues::f64});
  const std::size_t bytes = chunk.decoded.size();
  for (std::size_t cut = 8; cut <= chunk.stored.size(); cut += 8) {
    const auto stored = std::span(chunk.stored).first(chunk.stored.size() - cut);
    const std::string text = refusal(pipeline(chunk.params, bytes), stored, bytes);
    EXPECT_THAT(text, testing::StartsWith("zfp: ")) << cut;
  }
  EXPECT_EQ(refusal(pipeline(chunk.params, 712), chunk.stored, 712),
            "zfp: the header claims 720 bytes, a chunk has 712");
  EXPECT_EQ(refusal(pipeline(chunk.params, 728), chunk.stored, 728), "zfp: 720 bytes instead of 728");
}

bool supports(std::vector<unsigned> params) {
  return FilterPipeline::supports({.id = filter_id::kZfp, .params = std::move(params), .name = "zfp"});
}

TEST(ZfpDecoder, refuses_blocks_that_are_limited_to_less_than_their_head) {
  const auto limited = [](ZfpValues type, unsigned most_bits, int least_exponent) {
    return supports(zfp_params({{9, 10}, type, Mode::expert, 0, {1, most_bits, 64, least_exponent}}));
  };
  for (const auto& [type, lossy_bits, lossless_bits] : {std::tuple{ZfpValues::i32, 1U, 5U},
                                                        {ZfpValues::i64, 1U, 6U},
                                                        {ZfpValues::f32, 9U, 15U},
                                                        {ZfpValues::f64, 12U, 19U}}) {
    SCOPED_TRACE(static_cast<int>(type));
    EXPECT_TRUE(limited(type, lossy_bits, -20));
    EXPECT_TRUE(limited(type, lossless_bits, kLossless));
    EXPECT_FALSE(limited(type, lossless_bits - 1, kLossless));
    if (lossy_bits > 1) {
      EXPECT_FALSE(limited(type, lossy_bits - 1, -20));
    }
  }
}

TEST(ZfpDecoder, reads_no_further_than_its_bound_where_every_bit_is_one) {
  const Bytes ones(64 * 1024, std::byte{0xff});
  for (const ZfpValues type : {ZfpValues::i32, ZfpValues::i64, ZfpValues::f32, ZfpValues::f64}) {
    for (const int least_exponent : {-20, kLossless}) {
      for (const unsigned most_bits : {19U, 500U, 16658U}) {
        const ZfpSetUp set_up = {{9, 10}, type, Mode::expert, 0, {1, most_bits, 1, least_exponent}};
        const std::size_t bytes = 90 * (type == ZfpValues::i32 || type == ZfpValues::f32 ? 4 : 8);
        // More would be a std::logic_error.
        EXPECT_EQ(decode(pipeline(zfp_params(set_up), bytes), ones, bytes).size(), bytes);
      }
    }
  }
}

TEST(ZfpDecoder, supports_the_parameters_that_its_plugin_writes) {
  const std::vector<unsigned> params = zfp_chunk({{9, 10}, ZfpValues::f64}).params;
  EXPECT_TRUE(supports(params));
  EXPECT_FALSE(FilterPipeline::encodes({.id = filter_id::kZfp, .params = params, .name = "zfp"}));
  EXPECT_FALSE(supports({}));
  EXPECT_FALSE(supports({params[0]}));
  EXPECT_FALSE(supports({params[0], params[1] ^ 1U, params[2], params[3]}));
  EXPECT_FALSE(supports(std::vector<unsigned>(40, params[1])));
}

TEST_F(StoreChunkReader, reads_zfp_without_libhdf5) {
  const ZfpChunk chunk = zfp_chunk({{5, 7}, ZfpValues::f32, Mode::precision, 11});
  {
    H5TestFile file(path());
    file.create({.path = "images",
                 .file_type = H5T_NATIVE_FLOAT,
                 .shape = {5, 7},
                 .chunk = {5, 7},
                 .filters = {{.id = filter_id::kZfp, .optional = true, .params = chunk.params, .name = {}}}});
    file.write_chunk("images", Shape{0, 0}, chunk.stored);
  }
  const auto reader = open();
  EXPECT_TRUE(reader->direct()) << reader->fallback_reason();
  const ByteBuffer bytes = read_all(*reader, 2);
  EXPECT_TRUE(
      std::equal(chunk.decoded.begin(), chunk.decoded.end(), bytes.data(), bytes.data() + bytes.size()));
}

}  // namespace
}  // namespace h5feed::test
