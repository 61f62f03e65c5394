// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 5: what its parameters and chunks may claim. Its values: tests/conformance/nbit_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5feed/error.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/filter_decoding.hpp"

namespace h5feed::test {
namespace {

// Four values of twelve bits at bit 2 of two bytes in little-endian order.
const std::vector<unsigned> kParams = {8, 0, 4, 1, 2, 0, 12, 2};

FilterSpec nbit_filter(std::vector<unsigned> params = kParams) {
  return {.id = filter_id::kNbit, .optional = true, .params = std::move(params), .name = "nbit"};
}

std::vector<unsigned> with(std::size_t place, unsigned value) {
  std::vector<unsigned> params = kParams;
  params.at(place) = value;
  return params;
}

const Bytes kStored = bytes_of(0x00, 0x18, 0x00, 0xff, 0xf7, 0xff);

TEST(NbitDecoder, puts_values_at_their_bits_in_either_byte_order) {
  EXPECT_EQ(decode({{nbit_filter()}, 8, 2}, kStored, 8), from_hex("04000020fc3ffc1f")) << "little-endian";
  EXPECT_EQ(decode({{nbit_filter(with(5, 1))}, 8, 2}, kStored, 8), from_hex("000420003ffc1ffc"))
      << "big-endian";
}

TEST(NbitDecoder, bounds_what_hostile_chunks_and_parameters_claim) {
  for (std::size_t bytes = 0; bytes < kStored.size(); ++bytes) {
    EXPECT_THAT(refusal({{nbit_filter()}, 8, 2}, std::span(kStored).first(bytes), 8),
                testing::HasSubstr(" bytes are left "))
        << bytes;
  }
  EXPECT_EQ(refusal({{nbit_filter(with(2, 0xffffffff))}, 8, 2}, kStored, 8),
            "nbit: the header claims 8589934590 bytes, a chunk has 8");
  EXPECT_EQ(refusal({{nbit_filter(with(2, 3))}, 8, 2}, kStored, 8), "nbit: 6 bytes instead of 8");
}

TEST(NbitDecoder, supports_the_parameters_that_libhdf5_writes_for_integers) {
  EXPECT_TRUE(FilterPipeline::supports(nbit_filter()));
  EXPECT_FALSE(FilterPipeline::encodes(nbit_filter()));
  EXPECT_TRUE(FilterPipeline::supports(nbit_filter({3, 1, 100}))) << "a bitfield, stored as it is";
  EXPECT_FALSE(FilterPipeline::supports(nbit_filter({})));
  EXPECT_FALSE(FilterPipeline::supports(nbit_filter({8, 0, 4, 1, 2, 0, 12}))) << "cut";
  const struct {
    std::size_t place;
    unsigned value;
  } refused[] = {{0, 7}, {3, 2}, {3, 0},  {4, 0},  {4, 3}, {4, 16},        {4, 0x80000000U},
                 {5, 2}, {6, 0}, {6, 15}, {6, 16}, {7, 5}, {7, 0xffffffff}};
  for (const auto& [place, value] : refused)
    EXPECT_FALSE(FilterPipeline::supports(nbit_filter(with(place, value)))) << place << " " << value;
}

TEST(NbitDecoder, leaves_values_of_all_their_bits_alone) {
  const FilterPipeline whole({nbit_filter(with(1, 1))}, 8, 2);
  EXPECT_TRUE(whole.skips_all(0));
  const Bytes stored = test::patterned_bytes(8);
  EXPECT_EQ(decode(whole, stored, 8), stored);
}

TEST_F(StoreChunkReader, refuses_nbit_parameters_that_contradict_the_dataset) {
  const struct {
    std::size_t place;
    unsigned value;
    const char* text;
  } damages[] = {
      {2, 13,
       "was set up for chunks of 13 elements of 16 bits in big-endian order with values of 12 bits at"},
      {4, 4, "was set up for chunks of 12 elements of 32 bits in big-endian order with values of 12 bits at"},
      {5, 0, "was set up for chunks of 12 elements of 16 bits in little-endian order with values of 12 bits"},
      {6, 13,
       "was set up for chunks of 12 elements of 16 bits in big-endian order with values of 13 bits at"},
      {7, 1,
       "with values of 12 bits at bit 1, and those of the dataset have 12 elements of 16 bits in big-e"},
      {3, 3, "has parameters (8, 0, 12, 3, 2, 1, 12, 3) that its encoder does not write"},
  };
  for (const auto& damage : damages) {
    SCOPED_TRACE(damage.text);
    std::vector<unsigned> params;
    {
      const Hid type(H5Tcopy(H5T_STD_I16BE));
      test::require(H5Tset_precision(type.get(), 12), "H5Tset_precision");
      test::require(H5Tset_offset(type.get(), 3), "H5Tset_offset");
      H5TestFile file(path());
      file.create({.path = "images",
                   .file_type = type.get(),
                   .shape = {8, 3},
                   .chunk = {4, 3},
                   .filters = {{.id = filter_id::kNbit, .optional = true}}});
      file.write("images", test::patterned_bytes(48));
      params = file.filters("images")[0].params;
    }
    EXPECT_TRUE(open()->direct());
    damage_params(path(), params, damage.place, damage.value);
    EXPECT_THAT(without_directory(refusal_of<DatasetError>([&] { open(); })),
                testing::AllOf(testing::StartsWith("train.h5:/images: filter 5 (nbit) "),
                               testing::HasSubstr(damage.text),
                               testing::EndsWith("; restore the file from a good copy")));
  }
  EXPECT_EQ(warnings_, std::vector<std::string>());
}

}  // namespace
}  // namespace h5feed::test
