// SPDX-License-Identifier: Apache-2.0
// The n-th allocation of decoding or encoding a chunk fails, in h5feed or in a library of a codec, for every
// n until the work needs fewer: it ends with the right bytes or with std::bad_alloc, never with the claim
// that the chunk is damaged. A binary of its own, since it replaces malloc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "h5feed/config.hpp"
#include "support/every_allocation.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"
#if H5FEED_HAS_BLOSC2
#include "support/files/blosc2_chunk.hpp"
#endif
#if H5FEED_HAS_ZFP
#include "support/files/zfp_chunk.hpp"
#endif

namespace h5feed::test {
namespace {

constexpr std::size_t kElementBytes = 4;

void expect_decodes_or_bad_alloc(const FilterPipeline& pipeline, const Bytes& stored, const Bytes& expected) {
  Bytes out(expected.size());
  const auto decode_anew = [&] {
    DecodeScratch scratch;
    pipeline.decode(stored, 0, out, scratch);
  };
  const std::int64_t failures = expect_result_or_bad_alloc(decode_anew, [&] { return out == expected; });
  EXPECT_GT(failures, 0);
}

class CodecAllocations : public testing::TestWithParam<const char*> {};

TEST_P(CodecAllocations, that_fail_end_in_bad_alloc) {
  const Bytes chunk = patterned_bytes(40'000);
  const FilterPipeline pipeline(parse_filters(GetParam(), kElementBytes), chunk.size(), kElementBytes);
  expect_decodes_or_bad_alloc(pipeline, pipeline.encode(chunk), chunk);
  Bytes stored;
  const std::int64_t failures =
      expect_result_or_bad_alloc([&] { stored = pipeline.encode(chunk); },
                                 [&] { return decode(pipeline, stored, chunk.size()) == chunk; });
  EXPECT_GT(failures, 0);
}

INSTANTIATE_TEST_SUITE_P(All, CodecAllocations,
                         testing::Values("gzip:4", "shuffle+gzip:1+fletcher32", "lzf", "lz4", "zstd:3",
                                         "bzip2:1", "bitshuffle:lz4", "bitshuffle:zstd:3", "blosc:blosclz:5",
                                         "blosc:lz4:5", "blosc:lz4hc:5", "blosc:zlib:5", "blosc:zstd:5"),
                         [](const auto& each) { return test_name(each.param); });

TEST(CodecAllocations, that_fail_for_szip_end_in_bad_alloc) {
  // By libhdf5's encoder; 77 pixels of 2 bytes.
  const Bytes stored = from_hex(
      "9a0000003f8000003ff80001fff9eaaaa9249faaaa9555f80fff3333819999999ffebfaaaaaffffff9111111112aaaa02aaaf5"
      "5555955888880000");
  const FilterPipeline pipeline({{.id = filter_id::kSzip, .params = {141, 16, 16, 77}, .name = "szip"}}, 154,
                                2);
  expect_decodes_or_bad_alloc(pipeline, stored, decode(pipeline, stored, 154));
}

#if H5FEED_HAS_ZFP
TEST(CodecAllocations, that_fail_for_zfp_end_in_bad_alloc) {
  const ZfpChunk chunk = zfp_chunk({{40, 50}, ZfpValues::f32});
  const FilterPipeline pipeline({{.id = filter_id::kZfp, .params = chunk.params, .name = "zfp"}},
                                chunk.decoded.size(), 4);
  expect_decodes_or_bad_alloc(pipeline, chunk.stored, chunk.decoded);
}
#endif

#if H5FEED_HAS_BLOSC2
TEST(CodecAllocations, that_fail_for_blosc2_end_in_bad_alloc) {
  const Bytes chunk = patterned_bytes(40'000);
  // Not zstd: libblosc2 2.17 crashes where it is denied memory for it.
  for (const int codec : {0, 1, 2, 4}) {
    SCOPED_TRACE(codec);
    const FilterPipeline pipeline(
        {{.id = filter_id::kBlosc2, .params = {1, 0, 4, 40'000, 5, 1, 1}, .name = "blosc2"}}, chunk.size(),
        4);
    expect_decodes_or_bad_alloc(
        pipeline, blosc2_chunk({.shape = {}, .block = {}, .element_bytes = 4, .codec = codec}, chunk), chunk);
  }
}
#endif

}  // namespace
}  // namespace h5feed::test
