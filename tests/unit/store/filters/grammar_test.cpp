// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/error.hpp"
#include "store/filters/entry.hpp"

namespace h5feed::test {
namespace {

std::vector<unsigned> ids(const std::vector<FilterSpec>& filters) {
  std::vector<unsigned> result;
  for (const FilterSpec& filter : filters) result.push_back(filter.id);
  return result;
}

TEST(FilterGrammar, reads_every_form) {
  EXPECT_TRUE(parse_filters("none", 1).empty());
  EXPECT_EQ(ids(parse_filters("gzip:4", 1)), (std::vector<unsigned>{1}));
  EXPECT_EQ(ids(parse_filters("shuffle+gzip:9", 4)), (std::vector<unsigned>{2, 1}));
  EXPECT_EQ(ids(parse_filters("lz4+fletcher32", 4)), (std::vector<unsigned>{32004, 3}));
  EXPECT_EQ(ids(parse_filters("shuffle+zstd:22+fletcher32", 4)), (std::vector<unsigned>{2, 32015, 3}));
  EXPECT_EQ(ids(parse_filters("fletcher32", 4)), (std::vector<unsigned>{3}));
  EXPECT_EQ(parse_filters("shuffle+gzip:0", 4)[0].params, (std::vector<unsigned>{4}));
  EXPECT_EQ(parse_filters("gzip", 4)[0].params, (std::vector<unsigned>{4}));
  EXPECT_EQ(parse_filters("zstd", 4)[0].params, (std::vector<unsigned>{3}));
  EXPECT_EQ(parse_filters("bzip2", 4)[0].params, (std::vector<unsigned>{9}));
  EXPECT_EQ(ids(parse_filters("bitshuffle+gzip:1+fletcher32", 4)), (std::vector<unsigned>{32008, 1, 3}));
}

// The numbers that the public plugins store for the same choice (hdf5plugin 7.1.0); the chunk's size,
// which the grammar does not know, is 0 until `completed` sets it.
TEST(FilterGrammar, makes_the_parameters_of_the_public_plugins) {
  const auto params = [](const char* text) { return parse_filters(text, 4).back().params; };
  EXPECT_EQ(params("lzf"), (std::vector<unsigned>{4, 0x105, 0}));
  EXPECT_EQ(params("blosc"), (std::vector<unsigned>{2, 2, 4, 0, 5, 1, 1}));
  EXPECT_EQ(params("blosc:blosclz"), (std::vector<unsigned>{2, 2, 4, 0, 5, 1, 0}));
  EXPECT_EQ(params("blosc:lz4hc:9"), (std::vector<unsigned>{2, 2, 4, 0, 9, 1, 2}));
  EXPECT_EQ(params("blosc:zlib:0"), (std::vector<unsigned>{2, 2, 4, 0, 0, 1, 4}));
  EXPECT_EQ(params("blosc:zstd:1"), (std::vector<unsigned>{2, 2, 4, 0, 1, 1, 5}));
  EXPECT_EQ(params("bitshuffle:lz4"), (std::vector<unsigned>{0, 4, 4, 0, 2}));
  EXPECT_EQ(params("bitshuffle:zstd:7"), (std::vector<unsigned>{0, 4, 4, 0, 3, 7}));
  EXPECT_EQ(completed(parse_filters("blosc", 4)[0], 4000, 4).params[3], 4000U);
  EXPECT_EQ(completed(parse_filters("lzf", 4)[0], 4000, 4).params[2], 4000U);
  EXPECT_EQ(completed(parse_filters("bitshuffle:lz4", 4)[0], 4000, 4).params,
            parse_filters("bitshuffle:lz4", 4)[0].params);
}

TEST(FilterGrammar, leaves_the_shuffle_of_blosc_out_behind_another) {
  EXPECT_EQ(parse_filters("shuffle+blosc", 4)[1].params[5], 0U);
  EXPECT_EQ(parse_filters("blosc", 4)[0].params[5], 1U);
}

TEST(FilterGrammar, tells_blosc_that_elements_beyond_its_limit_are_bytes) {
  EXPECT_EQ(parse_filters("blosc", 255)[0].params[2], 255U);
  EXPECT_EQ(parse_filters("blosc", 256)[0].params[2], 1U);
}

TEST(FilterGrammar, prints_what_it_reads) {
  for (const char* text : {"none", "gzip:4", "shuffle+gzip:1", "lz4", "shuffle+zstd:19+fletcher32",
                           "fletcher32", "lzf", "bzip2:3", "bitshuffle:lz4", "bitshuffle+lz4",
                           "bitshuffle:zstd:9", "blosc:lz4:5", "blosc:zstd:9", "blosc:lz4hc:1+fletcher32"}) {
    EXPECT_EQ(format_filters(parse_filters(text, 2)), text);
  }
}

TEST(FilterGrammar, refuses_everything_else_naming_what_is_accepted) {
  for (const char* text : {"",
                           "gzip:10",
                           "gzip:",
                           "gzip:x",
                           "gzip:-1",
                           "zstd:0",
                           "zstd:23",
                           "lz4:1",
                           "shuffle",
                           "shuffle+fletcher32",
                           "gzip:4+shuffle",
                           "gzip:4+",
                           "+gzip:4",
                           "none+fletcher32",
                           "fletcher32+gzip:4",
                           "blosc:",
                           "blosc:5",
                           "blosc:lz5",
                           "blosc:lz4:10",
                           "blosc:lz4:",
                           "blosc:snappy",
                           "lzf:1",
                           "bzip2:0",
                           "bzip2:10",
                           "bitshuffle",
                           "bitshuffle:lz4:1",
                           "bitshuffle:zstd:23",
                           "bitshuffle+shuffle+gzip:4",
                           "gzip:4+fletcher32+fletcher32",
                           "lzma"}) {
    EXPECT_THROW(parse_filters(text, 1), OptionError) << text;
  }
  try {
    parse_filters("lzma", 1);
    FAIL() << "accepted";
  } catch (const OptionError& error) {
    EXPECT_STREQ(
        error.what(),
        "filter \"lzma\": accepted are none and "
        "[shuffle+|bitshuffle+]gzip:0..9|lz4|zstd:1..22|lzf|bzip2:1..9|"
        "bitshuffle:lz4|bitshuffle:zstd:1..22|blosc:blosclz|lz4|lz4hc|zlib|zstd:0..9[+fletcher32], for "
        "example shuffle+gzip:4");
  }
}

TEST(FilterTable, has_every_filter_once_with_all_that_its_spelling_needs) {
  std::set<unsigned> numbers;
  std::set<std::string_view> names;
  for (const FilterEntry* filter : all_filters()) {
    EXPECT_TRUE(numbers.insert(filter->id).second) << filter->id;
    EXPECT_TRUE(names.insert(filter->name).second) << filter->name;
    EXPECT_NE(filter->decode != nullptr, filter->verify != nullptr) << filter->name;
    const FilterSpelling& spelling = filter->spelling;
    const bool spelled = !spelling.before.empty() || !spelling.compressor.empty() || !spelling.after.empty();
    EXPECT_EQ(spelled, filter->parse != nullptr) << filter->name;
    EXPECT_TRUE(!spelled || filter->encode != nullptr) << filter->name << " is written, but not encoded";
    EXPECT_EQ(filter_name(filter->id), filter->name);
    EXPECT_TRUE(has_own_decoder(filter->id)) << filter->name;
  }
  for (const unsigned id : named_filters()) EXPECT_EQ(has_own_decoder(id), numbers.contains(id)) << id;
}

TEST(FilterTable, spells_filters_as_h5py_does) {
  const auto spelled = [](std::string_view text) {
    std::vector<std::string> arguments;
    for (const FilterSpec& filter : parse_filters(text, 2)) arguments.push_back(h5py_arguments(filter));
    return arguments;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(spelled("shuffle+gzip:7+fletcher32"),
            (Texts{"shuffle=True", "compression=\"gzip\", compression_opts=7", "fletcher32=True"}));
  EXPECT_EQ(spelled("lzf"), Texts{"compression=\"lzf\""});
  EXPECT_EQ(spelled("lz4"), Texts{"compression=32004"});
  EXPECT_EQ(spelled("zstd:5"), Texts{"compression=32015, compression_opts=(5,)"});
}

TEST(FilterTable, tells_compressors_from_filters_that_rearrange_or_check) {
  for (const unsigned id : named_filters())
    EXPECT_EQ(compresses(id), id != filter_id::kShuffle && id != filter_id::kFletcher32) << id;
}

TEST(FilterTable, lets_the_chunk_size_be_set_again_for_other_chunks) {
  for (const char* text : {"lzf", "blosc"}) {
    const FilterSpec small = completed(parse_filters(text, 4)[0], 4000, 4);
    EXPECT_EQ(completed(without_chunk_size(small), 8000, 4).params,
              completed(parse_filters(text, 4)[0], 8000, 4).params);
  }
}

}  // namespace
}  // namespace h5feed::test
