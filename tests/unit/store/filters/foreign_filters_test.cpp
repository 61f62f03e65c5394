// SPDX-License-Identifier: Apache-2.0
// What other encoders stored: the public plugins, and libhdf5's szip.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <string>
#include <vector>

#include "support/files/bytes.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

// Chunks of golden_elements() as h5py 3.16 with hdf5plugin 7.1.0 on libhdf5 2.0.0 stored them.
struct Golden {
  const char* name;
  std::size_t elements;
  std::size_t element_bytes;
  FilterSpec filter;
  const char* stored;
  bool big_endian = false;
};

Bytes golden_elements(const Golden& golden) {
  Bytes bytes;
  for (std::size_t i = 0; i < golden.elements; ++i) {
    const std::size_t value = i / 9 * 3 + (i % 32 == 5 ? 100 : 0);
    for (std::size_t b = 0; b < golden.element_bytes; ++b) {
      const std::size_t place = golden.big_endian ? golden.element_bytes - 1 - b : b;
      bytes.push_back(static_cast<std::byte>(value >> (8 * place)));
    }
  }
  return bytes;
}

class PublicPlugins : public testing::TestWithParam<Golden> {};

TEST_P(PublicPlugins, wrote_what_is_decoded) {
  const Bytes expected = golden_elements(GetParam());
  ASSERT_TRUE(FilterPipeline::supports(GetParam().filter));
  const FilterPipeline pipeline({GetParam().filter}, expected.size(), GetParam().element_bytes);
  const Bytes stored = from_hex(GetParam().stored);
  EXPECT_EQ(decode(pipeline, stored, expected.size()), expected);
  for (std::size_t size = 0; size < stored.size(); ++size) {
    try {
      EXPECT_EQ(decode(pipeline, std::span(stored).first(size), expected.size()), expected);
    } catch (const FilterError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PublicPlugins,
    testing::Values(
        Golden{"lzf",
               80,
               1,
               {.id = 32000, .params = {4, 261, 80}},
               "0100002000006420030003c0000006c0000009c000020c700c8000000fc0000012c00000156000037915151860000"
               "11818"},
        Golden{"bzip2",
               600,
               1,
               {.id = 307, .params = {9}},
               "425a6839314159265359d15561130000007fffff24924924924924924924924d24d269269349349a49a49a4d00402"
               "0020100103000f580efd4864c46464641a00d069a68c4d34d34680d1886464064f53040681a068d34d0da2184d1a3"
               "10d1a18430800afd4532a0000d03401a001a681a69a7a8d3d4f53d31304d44d0040208f1c004860ce25e6d97b3493"
               "52616b1b636f34c314f32f5f3704584fc58f2201452cb993cca685565f4b0cebd8ded737f1e5cddeaf3f07877cc5e"
               "9407b3808d03f2d5059b5c26b80240be225c1acb823e46abe4618fd073e249747ae8dba27e92aab2f199786fc09ee"
               "62be3d7c49184caf9bcf8f7409809fe88700e904a159009af00e804c252b09db6e11b20952c4274c43a213118d563"
               "322dc63a612b947b4e51d28949fcaac98b3e130ea449ccdb538d9c4ad824541deca06d225445519cda84ac4c2acc6"
               "258ac77771dab167fc5dc914e142434555844c0"},
        Golden{"blosc_blosclz",
               160,
               2,
               {.id = 32001, .params = {2, 2, 2, 320, 9, 1, 0}},
               "02010102400100004001000082000000140000005b0000002900000000006400000003c0000006c0000009c000020"
               "c700c8000000fc0000012c000001560000379151518c000001bc000001ec000032121852160000024c0000027c000"
               "002a8000028e2a2dc0000030c00006333333333333330b0000002300000000e09103010000"},
        Golden{"blosc_lz4",
               80,
               4,
               {.id = 32001, .params = {2, 2, 4, 320, 5, 1, 1}},
               "02013104400100004001000077000000140000005f00000010000100f00c640000000303030303030303030606060"
               "6060606060609090909090500f11f0c700c0c0c0c0c0c0c0f0f0f0f0f0f0f0f0f1212121212121212121515151515"
               "157915151818181818181818000052000f0200d1500000000000"},
        Golden{"blosc_lz4hc_bits",
               160,
               2,
               {.id = 32001, .params = {2, 2, 2, 320, 9, 2, 2}},
               "02012402400100004001000091000000140000006a0000009700fe03f80fe03f80ff09009700feff0700e0ff7f000"
               "900f0042000fc07d0ff3f80df0000fc27f0ff3fa0ff000100e2f8dfff3f0020ffffff070000c0ff14002000200b00"
               "02140061000000ffff2014000204006ad8ffffffdfff14000f0100018020000000200000000b0000001f000100875"
               "00000000000"},
        Golden{"blosc_zlib",
               80,
               4,
               {.id = 32001, .params = {2, 2, 4, 320, 9, 0, 4}},
               "02017004400100004001000044000000140000002c00000078da6360c00429687c6622301b11989308cc03c405501"
               "a17e627020b11814571e04a24b604010c00469e04e1"},
        Golden{"blosc_zstd",
               80,
               4,
               {.id = 32001, .params = {2, 2, 4, 320, 5, 1, 5}},
               "02019104400100004001000049000000140000003100000028b52ffd6040003d0100b800000000006400000003060"
               "90c700c0f121579151518000910006c2a92da3df6041e7284115d"},
        Golden{"bitshuffle_plain",
               27,
               4,
               {.id = 32008, .params = {0, 4, 4, 0, 0}},
               "00fe0300feff2000fc000000000000200000200000000000000000000000000000000000000000000000000000000"
               "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
               "000000060000000600000006000000"},
        Golden{"bitshuffle_lz4",
               84,
               2,
               {.id = 32008, .params = {0, 4, 2, 0, 2}},
               "00000000000000a8000020000000004cf01900fe03f80fe03f80ff0000feff0700e0ff7f00002000fc07d0ff3f80d"
               "f00000000f8dfff3f0020ff0b00712000c0ffffff200a00000400020600000a00001e000f02003e50000000000018"
               "001b001b001b00"},
        Golden{"bitshuffle_zstd",
               84,
               2,
               {.id = 32008, .params = {0, 4, 2, 0, 3, 3}},
               "00000000000000a8000020000000004828b52ffd20a0fd0100f40200fe03f80fe03f80ff0000feff0700e0ff7f000"
               "02000fc07d0ff3f80df00000000f8dfff3f0020ff2000c0ffffff200500879b001676065adac06b290318001b001b"
               "001b00"},
        Golden{"szip_bytes",
               80,
               1,
               {.id = 4, .params = {169, 8, 8, 80}},
               "50000000c01e206000004380c7f381f9e07f7c40c00000d0380fc0e7f033fc0ef8818000003270103fc0"},
        Golden{"szip_padded",
               77,
               2,
               {.id = 4, .params = {141, 16, 16, 77}},
               "9a0000003f8000003ff80001fff9eaaaa9249faaaa9555f80fff3333819999999ffebfaaaaaffffff9111111112aa"
               "aa02aaaf55555955888880000"},
        Golden{"szip_planes",
               50,
               4,
               {.id = 4, .params = {169, 4, 32, 50}},
               "c8000000000f0064c70031c270309e041e0ce18e0013038400020001000080"},
        Golden{"szip_big_endian",
               64,
               2,
               {.id = 4, .params = {177, 32, 16, 64}},
               "8000000040000f0008000007fffffe001380c00000300000060004f8001000000ffffffc0030e00006000000c0000"
               "018",
               true}),
    [](const auto& golden) { return std::string(golden.param.name); });

// libhdf5's encoder, over the ways pixels are laid out.
TEST(Szip, decodes_what_libhdf5_writes) {
  const test::TempDir dir;
  int number = 0;
  for (const hid_t type : {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_I16BE, H5T_STD_U32LE, H5T_IEEE_F64LE}) {
    for (const unsigned coding : {unsigned{H5_SZIP_NN_OPTION_MASK}, unsigned{H5_SZIP_EC_OPTION_MASK}}) {
      for (const unsigned block : {2U, 8U, 10U, 32U}) {
        for (const std::uint64_t elements : {32U, 77U, 5000U}) {
          test::H5TestFile file(dir.path() / std::to_string(number++));
          file.create({.file_type = type,
                       .shape = {elements},
                       .chunk = {elements},
                       .filters = {{.id = filter_id::kSzip, .optional = true, .params = {coding, block}}}});
          const std::size_t bytes = elements * H5Tget_size(type);
          const test::Hid dataset(H5Dopen2(file.id(), "x", H5P_DEFAULT));
          const Bytes data = test::patterned_bytes(bytes);
          test::require(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()),
                        "H5Dwrite");
          const test::Hid plist(H5Dget_create_plist(dataset.get()));
          std::array<unsigned, 8> params{};
          std::size_t count = params.size();
          unsigned flags = 0;
          test::require(H5Pget_filter_by_id2(plist.get(), H5Z_FILTER_SZIP, &flags, &count, params.data(), 0,
                                             nullptr, nullptr),
                        "H5Pget_filter_by_id2");
          const FilterSpec filter{
              .id = filter_id::kSzip, .params = {params.data(), params.data() + count}, .name = "szip"};
          ASSERT_TRUE(FilterPipeline::supports(filter));
          hsize_t stored_bytes = 0;
          const hsize_t first = 0;
          test::require(H5Fflush(file.id(), H5F_SCOPE_LOCAL), "H5Fflush");
          test::require(H5Dget_chunk_storage_size(dataset.get(), &first, &stored_bytes),
                        "H5Dget_chunk_storage_size");
          Bytes stored(stored_bytes);
          std::uint32_t mask = 0;
          test::require(H5Dread_chunk(dataset.get(), H5P_DEFAULT, &first, &mask, stored.data()),
                        "H5Dread_chunk");
          ASSERT_EQ(decode(FilterPipeline({filter}, bytes, H5Tget_size(type)), stored, bytes, mask), data)
              << elements << " elements, blocks of " << block << ", mask " << mask;
        }
      }
    }
  }
}

// libaec returns other values in each run over some of them.
TEST_F(StoreChunkReader, refuses_szip_parameters_that_no_encoder_writes) {
  const struct {
    std::size_t place;
    unsigned value;
  } damages[] = {{1, 2'097'160}, {1, 9}, {1, 0}, {2, 25}, {3, 5000}, {3, 4}};
  for (const auto& damage : damages) {
    SCOPED_TRACE(damage.value);
    write({.path = "images",
           .shape = {64, 8},
           .chunk = {32, 8},
           .filters = {{.id = filter_id::kSzip, .params = {H5_SZIP_NN_OPTION_MASK, 8}}}});
    const std::vector<unsigned> params = open()->info().filters.at(0).params;
    damage_params(path(), params, damage.place, damage.value);
    const std::string message = open_message();
    EXPECT_EQ(message.find("train.h5:/images: filter 4 (szip) has parameters ("), 0U) << message;
    EXPECT_TRUE(message.ends_with(") that its encoder does not write; restore the file from a good copy"))
        << message;
  }
}

}  // namespace
}  // namespace h5feed::test
