// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32026 against libblosc2's own encoder: arrays in blocks, plain chunks, and what frames may
// claim.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "store/filters/blosc2_frame.hpp"
#include "store/read/read_all.hpp"
#include "support/files/blosc2_chunk.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/filter_decoding.hpp"

namespace h5feed::test {
namespace {

FilterSpec filter(const Blosc2SetUp& set_up, std::size_t bytes) {
  std::vector<unsigned> params = {
      1, 0, static_cast<unsigned>(set_up.element_bytes), static_cast<unsigned>(bytes), 5, 1, 1};
  if (!set_up.shape.empty()) {
    params.push_back(static_cast<unsigned>(set_up.shape.size()));
    params.insert(params.end(), set_up.shape.begin(), set_up.shape.end());
  }
  return {.id = filter_id::kBlosc2, .optional = true, .params = params, .name = "blosc2"};
}

FilterPipeline pipeline(const Blosc2SetUp& set_up, std::size_t bytes) {
  return {{filter(set_up, bytes)}, bytes, static_cast<std::size_t>(set_up.element_bytes)};
}

std::size_t bytes_of_chunk(const Blosc2SetUp& set_up) {
  std::size_t bytes = static_cast<std::size_t>(set_up.element_bytes);
  for (const std::int32_t extent : set_up.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

const Blosc2SetUp kArray{.shape = {5, 7}, .block = {2, 4}, .element_bytes = 4};

TEST(Blosc2Decoder, undoes_every_codec_and_filter) {
  for (const int codec : {0, 1, 2, 4, 5}) {
    for (const int filter : {0, 1, 2, 3, 4}) {
      for (const int level : {0, 1, 9}) {
        Blosc2SetUp set_up{.shape = {9, 10, 11}, .block = {4, 8, 11}, .element_bytes = 4, .codec = codec};
        set_up.filter = filter;
        set_up.level = level;
        const Bytes values = patterned_bytes(bytes_of_chunk(set_up));
        SCOPED_TRACE(testing::Message() << codec << " " << filter << " " << level);
        EXPECT_EQ(decode(pipeline(set_up, values.size()), blosc2_chunk(set_up, values), values.size()),
                  values);
        set_up.shape.clear();
        EXPECT_EQ(decode(pipeline(set_up, values.size()), blosc2_chunk(set_up, values), values.size()),
                  values);
      }
    }
  }
}

TEST(Blosc2Decoder, puts_blocks_of_every_shape_to_their_places) {
  std::mt19937_64 random(1);
  int ambiguous = 0;
  for (int i = 0; i < 200; ++i) {
    Blosc2SetUp set_up{.element_bytes = std::int32_t{1} << random() % 4};
    for (std::uint64_t rank = 1 + random() % 5; rank > 0; --rank) {
      set_up.shape.push_back(static_cast<std::int32_t>(1 + random() % 9));
      // As the filter's writers choose them: a power of two, or all.
      const std::int32_t block = std::int32_t{1} << random() % 4;
      set_up.block.push_back(block <= set_up.shape.back() ? block : set_up.shape.back());
    }
    const Bytes values = random_bytes(bytes_of_chunk(set_up), static_cast<unsigned>(i));
    SCOPED_TRACE(testing::Message() << testing::PrintToString(set_up.shape) << " in blocks of "
                                    << testing::PrintToString(set_up.block));
    const Bytes stored = blosc2_chunk(set_up, values);
    if (blocks_are_ambiguous(read_blosc2_frame(stored))) {
      EXPECT_THAT(refusal(pipeline(set_up, values.size()), stored, values.size()),
                  testing::HasSubstr("in different orders, and the file does not tell which"));
      ++ambiguous;
    } else {
      EXPECT_EQ(decode(pipeline(set_up, values.size()), stored, values.size()), values);
    }
  }
  EXPECT_GT(ambiguous, 0);
  EXPECT_LT(ambiguous, 100);
}

TEST(Blosc2Decoder, delivers_chunks_of_one_value) {
  for (const unsigned value : {0U, 7U, 0xffU}) {
    const Bytes values(bytes_of_chunk(kArray), static_cast<std::byte>(value));
    EXPECT_EQ(decode(pipeline(kArray, values.size()), blosc2_chunk(kArray, values), values.size()), values);
  }
}

TEST(Blosc2Decoder, refuses_frames_that_end_early) {
  const Bytes values = patterned_bytes(bytes_of_chunk(kArray));
  const Bytes stored = blosc2_chunk(kArray, values);
  for (std::size_t bytes = 0; bytes < stored.size(); ++bytes) {
    EXPECT_THAT(refusal(pipeline(kArray, values.size()), std::span(stored).first(bytes), values.size()),
                testing::StartsWith("blosc2: "))
        << bytes;
  }
}

// Sets a byte of a frame, and returns what it is refused with.
std::string refused_with(Bytes stored, std::size_t place, unsigned value, std::size_t bytes) {
  stored.at(place) = static_cast<std::byte>(value);
  return refusal(pipeline(kArray, bytes), stored, bytes);
}

TEST(Blosc2Decoder, refuses_plugins_lazy_chunks_and_other_sizes) {
  const std::size_t bytes = bytes_of_chunk(kArray);
  const Bytes stored = blosc2_chunk(kArray, patterned_bytes(bytes));
  const Blosc2Frame frame = read_blosc2_frame(stored);
  const auto chunk = static_cast<std::size_t>(frame.chunk.data() - stored.data());
  using testing::HasSubstr;
  EXPECT_THAT(refused_with(stored, chunk + 16, 200, bytes), HasSubstr("its filter 200 is not built into"));
  EXPECT_THAT(refused_with(stored, chunk + 31, 0x08, bytes), HasSubstr("flags"));
  EXPECT_THAT(refused_with(stored, chunk + 2, 0xc5, bytes), HasSubstr("flags")) << "a codec of a plugin";
  EXPECT_THAT(refused_with(stored, chunk + 4, 1, bytes), HasSubstr("in a frame of"));
  EXPECT_THAT(refused_with(stored, chunk + 10, 0x7f, bytes), HasSubstr("block size"));
  EXPECT_THAT(refused_with(stored, 26, 1, bytes), HasSubstr("sparse"));
  EXPECT_THAT(refused_with(stored, 34, 1, bytes), HasSubstr("more than one chunk"));
  EXPECT_THAT(refusal(pipeline(kArray, bytes - 4), stored, bytes - 4),
              HasSubstr("the header claims 140 bytes, a chunk has 136"));
}

TEST(Blosc2Decoder, refuses_differences_that_libblosc2_cannot_undo) {
  constexpr std::size_t kFiltersAt = 16;
  constexpr unsigned kShuffle = 1, kDelta = 3;
  Blosc2SetUp set_up = kArray;
  const std::size_t bytes = bytes_of_chunk(set_up);
  for (const int last : {1, 2, 3}) {
    SCOPED_TRACE(last);
    set_up.filter = last;
    const Bytes stored = blosc2_chunk(set_up, patterned_bytes(bytes));
    const auto chunk = static_cast<std::size_t>(read_blosc2_frame(stored).chunk.data() - stored.data());
    const auto refused = [&](unsigned before_last) {
      return refused_with(stored, chunk + kFiltersAt + 4, before_last, bytes)
                 .find("its differences of bytes") != std::string::npos;
    };
    EXPECT_EQ(refused(kShuffle), last == 3) << "differences of what is shuffled";
    EXPECT_EQ(refused(kDelta), last == 3) << "differences of differences";
  }
}

TEST_F(StoreChunkReader, reads_blosc2_without_libhdf5) {
  const Bytes values = patterned_bytes(bytes_of_chunk(kArray));
  {
    H5TestFile file(path());
    const FilterSpec stored = filter(kArray, values.size());
    file.create({.path = "images",
                 .file_type = H5T_STD_I32LE,
                 .shape = {5, 7},
                 .chunk = {5, 7},
                 .filters = {stored}});
    file.write_chunk("images", Shape{0, 0}, blosc2_chunk(kArray, values));
  }
  const auto reader = open();
  EXPECT_TRUE(reader->direct()) << reader->fallback_reason();
  const ByteBuffer bytes = read_all(*reader, 2);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
}

}  // namespace
}  // namespace h5feed::test
