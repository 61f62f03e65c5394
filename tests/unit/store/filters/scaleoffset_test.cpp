// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 6: what its header and parameters may claim. Its values:
// tests/conformance/scaleoffset_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5feed/error.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/scaleoffset_chunk.hpp"

namespace h5feed::test {
namespace {

constexpr ScaleOffsetSetUp kSetUp{.elements = 9, .element_bytes = 2, .is_signed = true};

FilterSpec filter(const ScaleOffsetSetUp& set_up = kSetUp) {
  return {.id = filter_id::kScaleOffset,
          .optional = true,
          .params = scaleoffset_params(set_up),
          .name = "scaleoffset"};
}

FilterPipeline pipeline(const ScaleOffsetSetUp& set_up = kSetUp) {
  return {{filter(set_up)}, set_up.elements * set_up.element_bytes, set_up.element_bytes};
}

const std::vector<std::uint64_t> kValues = {0, 1, 2, 3, 4, 5, 6, 7, 31};

Bytes i16_bytes(const std::vector<int>& values) {
  Bytes bytes;
  for (const int value : values) {
    bytes.push_back(static_cast<std::byte>(value));
    bytes.push_back(static_cast<std::byte>(value >> 8));
  }
  return bytes;
}

TEST(ScaleOffsetDecoder, adds_the_minimum_and_puts_the_fill_value_in_place_of_ones) {
  const Bytes stored = test::scaleoffset_chunk(5, static_cast<std::uint64_t>(-3), kValues);
  EXPECT_EQ(decode(pipeline(), stored, 18), i16_bytes({-3, -2, -1, 0, 1, 2, 3, 4, 28}));
  ScaleOffsetSetUp filled = kSetUp;
  filled.fill_value = 0xfffe;
  EXPECT_EQ(decode(pipeline(filled), stored, 18), i16_bytes({-3, -2, -1, 0, 1, 2, 3, 4, -2}));
}

TEST(ScaleOffsetDecoder, bounds_what_hostile_chunks_claim) {
  const Bytes stored = test::scaleoffset_chunk(5, 0, kValues);
  for (std::size_t bytes = 0; bytes < stored.size(); ++bytes) {
    EXPECT_THAT(refusal(pipeline(), std::span(stored).first(bytes), 18),
                testing::HasSubstr(" bytes are left "))
        << bytes;
  }
  for (const unsigned bits : {17U, 0x80000000U, 0xffffffffU}) {
    Bytes wide = stored;
    put_little_endian(wide, 0, bits);
    EXPECT_EQ(refusal(pipeline(), wide, 18),
              "scaleoffset: values of " + std::to_string(bits) + " bits, an element has 16");
  }
  ScaleOffsetSetUp large = kSetUp;
  large.elements = 0xffffffff;
  EXPECT_EQ(refusal({{filter(large)}, 18, 2}, stored, 18),
            "scaleoffset: the header claims 8589934590 bytes, a chunk has 18");
  ScaleOffsetSetUp small = kSetUp;
  small.elements = 8;
  EXPECT_EQ(refusal({{filter(small)}, 18, 2}, stored, 18), "scaleoffset: 16 bytes instead of 18");
}

TEST(ScaleOffsetDecoder, reads_a_minimum_of_any_stated_size) {
  Bytes stored = test::scaleoffset_chunk(5, 0x0102, kValues);
  stored[4] = std::byte{1};
  EXPECT_EQ(decode(pipeline(), stored, 18), i16_bytes({2, 3, 4, 5, 6, 7, 8, 9, 33}));
  stored[4] = std::byte{0};
  EXPECT_EQ(decode(pipeline(), stored, 18), i16_bytes({0, 1, 2, 3, 4, 5, 6, 7, 31}));
  stored[4] = std::byte{255};
  EXPECT_EQ(decode(pipeline(), stored, 18), i16_bytes({258, 259, 260, 261, 262, 263, 264, 265, 289}));
}

TEST(ScaleOffsetDecoder, leaves_integers_of_all_their_bits_alone) {
  ScaleOffsetSetUp whole = kSetUp;
  whole.factor = 16;
  const Bytes stored = test::patterned_bytes(18);
  EXPECT_TRUE(pipeline(whole).skips_all(0));
  EXPECT_EQ(decode(pipeline(whole), stored, 18), stored);
}

TEST(ScaleOffsetDecoder, supports_the_parameters_that_libhdf5_writes) {
  const auto with = [](std::size_t place, unsigned value) {
    FilterSpec changed = filter();
    changed.params.at(place) = value;
    return FilterPipeline::supports(changed);
  };
  EXPECT_TRUE(FilterPipeline::supports(filter()));
  EXPECT_FALSE(FilterPipeline::encodes(filter()));
  EXPECT_FALSE(with(0, 0)) << "decimal digits of integers";
  EXPECT_FALSE(with(3, 1)) << "floats of two bytes";
  EXPECT_FALSE(with(3, 2)) << "no class";
  for (const unsigned bytes : {0U, 3U, 16U, 0x80000000U}) EXPECT_FALSE(with(4, bytes)) << bytes;
  for (const std::size_t place : {5U, 6U, 7U}) EXPECT_FALSE(with(place, 2)) << place;
  FilterSpec cut = filter();
  cut.params.pop_back();
  EXPECT_FALSE(FilterPipeline::supports(cut));
  ScaleOffsetSetUp binary{.floating = true, .elements = 9, .element_bytes = 4};
  EXPECT_TRUE(FilterPipeline::supports(filter(binary)));
  FilterSpec exponent = filter(binary);
  exponent.params[0] = 1;
  EXPECT_FALSE(FilterPipeline::supports(exponent)) << "libhdf5 itself does not have this scale";
}

TEST_F(StoreChunkReader, refuses_scaleoffset_parameters_that_contradict_the_dataset) {
  const struct {
    std::size_t place;
    unsigned value;
    const char* text;
  } damages[] = {
      {2, 13, "was set up for chunks of 13 elements of i16 in big-endian order, and those"},
      {4, 4, "was set up for chunks of 12 elements of i32 in big-endian order, and those"},
      {5, 0, "was set up for chunks of 12 elements of u16 in big-endian order, and those"},
      {6, 0, "was set up for chunks of 12 elements of i16 in little-endian order, and those"},
      {0, 1, "has parameters (1, 0, 12, 0, 2, 1, 1, 1, "},
  };
  for (const auto& damage : damages) {
    SCOPED_TRACE(damage.text);
    std::vector<unsigned> params;
    {
      H5TestFile file(path());
      file.create({.path = "images",
                   .file_type = H5T_STD_I16BE,
                   .shape = {8, 3},
                   .chunk = {4, 3},
                   .filters = {{.id = filter_id::kScaleOffset, .optional = true, .params = {2, 0}}}});
      file.write("images", test::patterned_bytes(48));
      params = file.filters("images")[0].params;
    }
    EXPECT_TRUE(open()->direct());
    damage_params(path(), params, damage.place, damage.value);
    EXPECT_THAT(without_directory(refusal_of<DatasetError>([&] { open(); })),
                testing::AllOf(testing::StartsWith("train.h5:/images: filter 6 (scaleoffset) "),
                               testing::HasSubstr(damage.text),
                               testing::EndsWith("; restore the file from a good copy")));
  }
  EXPECT_EQ(warnings_, std::vector<std::string>());
}

}  // namespace
}  // namespace h5feed::test
