// SPDX-License-Identifier: Apache-2.0
// h5feed info --stats: figures that a plain loop over the values confirms, for every type and layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "store/write/attributes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/storage/channel_stats.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

cli::DatasetStats stats_of(const std::filesystem::path& path, const std::string& dataset,
                           std::optional<std::size_t> dimension, unsigned jobs) {
  const auto file = H5File::open(path);
  const auto reader = open_chunk_reader(file, file->describe(dataset));
  return cli::channel_stats(*reader, dimension, {.jobs = jobs, .memory_bytes = 64 << 20},
                            [](std::uint64_t) {});
}

// Straight from the definition.
template <typename T>
cli::ChannelStats expected(const std::vector<T>& values) {
  long double sum = 0, squares = 0;
  for (const T value : values) sum += static_cast<long double>(value);
  const long double mean = sum / static_cast<long double>(values.size());
  for (const T value : values) {
    squares += (static_cast<long double>(value) - mean) * (static_cast<long double>(value) - mean);
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {.mean = static_cast<double>(mean),
          .std = static_cast<double>(std::sqrt(squares / static_cast<long double>(values.size()))),
          .min = static_cast<double>(*low),
          .max = static_cast<double>(*high)};
}

template <typename T>
void expect_figures(hid_t type, const std::vector<T>& values) {
  const TempDir dir;
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x", .file_type = type, .shape = {values.size()}, .chunk = {3}});
    file.write("x", bytes_of(values));
  }
  const auto wanted = expected(values);
  const cli::DatasetStats one = stats_of(dir / "s.h5", "x", std::nullopt, 1);
  ASSERT_EQ(one.channels.size(), 1U);
  EXPECT_EQ(one.values, values.size());
  EXPECT_NEAR(one.channels[0].mean, wanted.mean, 1e-15 * std::abs(wanted.mean));
  EXPECT_NEAR(one.channels[0].std, wanted.std, 1e-14 * wanted.std);
  EXPECT_EQ(one.channels[0].min, wanted.min);
  EXPECT_EQ(one.channels[0].max, wanted.max);
  const cli::DatasetStats four = stats_of(dir / "s.h5", "x", std::nullopt, 4);
  EXPECT_EQ(four.channels[0].mean, one.channels[0].mean);
  EXPECT_EQ(four.channels[0].std, one.channels[0].std);
}

TEST(InfoStats, are_those_of_the_definition_for_every_element_type) {
  expect_figures<std::uint8_t>(H5T_STD_U8LE, {0, 255, 3, 3, 17, 200, 1, 0, 99});
  expect_figures<std::int8_t>(H5T_STD_I8LE, {-128, 127, 3, -3, 17, -20, 1, 0, 99});
  expect_figures<std::uint16_t>(H5T_STD_U16LE, {65535, 65534, 65533, 65535, 1, 2, 3, 4, 5});
  expect_figures<std::int16_t>(H5T_STD_I16BE, {-32768, 32767, -1, 0, 1, 2, 3, 4, 5});
  expect_figures<std::uint32_t>(H5T_STD_U32LE, {4294967295U, 4294967294U, 4294967293U, 4294967295U, 7});
  expect_figures<std::int32_t>(H5T_STD_I32LE,
                               {std::numeric_limits<std::int32_t>::min(), 5, 6, 7, 8, 9, 10, 11});
  expect_figures<std::int64_t>(H5T_STD_I64LE, {1LL << 52, (1LL << 52) + 1, (1LL << 52) + 2, -4, 5});
  expect_figures<float>(H5T_IEEE_F32LE, {1.5F, -2.25F, 3e6F, 0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 1e-7F});
  expect_figures<double>(H5T_IEEE_F64BE,
                         {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4, 1e9 + 5, 1e9 + 6, 1e9 + 7, 1e9});
}

TEST(InfoStats, are_exact_where_a_sum_of_squares_would_cancel) {
  // A variance of 1/4 next to a square of 2^62: nothing of it would be left in a double.
  std::vector<std::uint32_t> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4'000'000'000U + i % 2;
  const TempDir dir;
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x", .file_type = H5T_STD_U32LE, .shape = {values.size()}, .chunk = {333}});
    file.write("x", bytes_of(values));
  }
  const auto stats = stats_of(dir / "s.h5", "x", std::nullopt, 3);
  EXPECT_EQ(stats.channels[0].mean, 4'000'000'000.5);
  EXPECT_EQ(stats.channels[0].std, 0.5);
}

// Statistics of values in chunks of two rows, the last of which is half empty if the number of rows is odd.
template <typename T>
cli::DatasetStats stats_of_values(hid_t type, const std::vector<T>& values, std::uint64_t channels = 1) {
  const TempDir dir;
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x",
                 .file_type = type,
                 .shape = {values.size() / channels, channels},
                 .chunk = {2, channels}});
    file.write("x", bytes_of(values));
  }
  return stats_of(dir / "s.h5", "x", 1, 2);
}

template <typename T>
void expect_wide(hid_t type, const std::vector<T>& values, double mean, double std) {
  SCOPED_TRACE(::testing::PrintToString(values));
  const cli::DatasetStats stats = stats_of_values(type, values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_EQ(stats.channels[0].mean, mean);
  EXPECT_DOUBLE_EQ(stats.channels[0].std, std);
  EXPECT_EQ(stats.channels[0].min, static_cast<double>(*low));
  EXPECT_EQ(stats.channels[0].max, static_cast<double>(*high));
  EXPECT_EQ(cli::normalize_stats(stats, dtype_of<T>()).unscaled, *low == *high ? 1U : 0U);
}

TEST(InfoStats, are_exact_for_integers_that_no_double_holds) {
  constexpr std::int64_t k54 = std::int64_t{1} << 54U, k62 = std::int64_t{1} << 62U;
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t k63 = std::uint64_t{1} << 63U;
  const auto expect_signed = [](const std::vector<std::int64_t>& values, double mean, double std) {
    expect_wide(H5T_STD_I64LE, values, mean, std);
  };
  const auto expect_unsigned = [](const std::vector<std::uint64_t>& values, double mean, double std) {
    expect_wide(H5T_STD_U64LE, values, mean, std);
  };
  const double of_three = std::sqrt(2.0 / 3), of_five = std::sqrt(2.0);
  expect_signed({k54, k54 + 1, k54 + 2}, 0x1p54, of_three);
  expect_signed({-k54, -k54 - 1, -k54 - 2}, -0x1p54, of_three);
  expect_signed({k62, k62 + 1, k62 + 2, k62 + 3, k62 + 4}, 0x1p62, of_five);
  expect_signed({-k62, -k62 - 1, -k62 - 2, -k62 - 3, -k62 - 4}, -0x1p62, of_five);
  expect_signed({-3, -1, 1, 3}, 0, std::sqrt(5.0));
  expect_signed({kLowest, kHighest}, -0.5, 0x1p63);
  expect_signed({kLowest, kHighest, kHighest, kLowest, 0}, -0.4, std::sqrt(0.8) * 0x1p63);
  expect_signed({kLowest, kLowest + 1, kLowest + 2}, -0x1p63, of_three);
  expect_signed({kHighest, kHighest - 1, kHighest - 2}, 0x1p63, of_three);
  expect_signed({kLowest, kLowest, kLowest}, -0x1p63, 0);
  expect_unsigned({k63, k63 + 1, k63 + 2}, 0x1p63, of_three);
  expect_unsigned({kTop, kTop - 1, kTop - 2, kTop - 3, kTop - 4}, 0x1p64, of_five);
  expect_unsigned({kTop, 0}, 0x1p63, 0x1p63);
  expect_unsigned({kTop, kTop, kTop, kTop, 0}, 0.8 * 0x1p64, 0.4 * 0x1p64);
  expect_unsigned({kTop, kTop, kTop}, 0x1p64, 0);
  expect_unsigned({7, 7, 7}, 7, 0);
}

TEST(InfoStats, keep_what_is_left_of_one_differing_value_among_many) {
  std::vector<std::int64_t> values(100'000, (std::int64_t{1} << 60U) + 1);
  --values[54'321];
  const auto n = static_cast<double>(values.size());
  const cli::DatasetStats stats = stats_of_values(H5T_STD_I64LE, values, 10);
  EXPECT_DOUBLE_EQ(stats.channels[1].std, std::sqrt(1 / (n / 10) - 1 / (n * n / 100)));
  EXPECT_EQ(stats.channels[0].std, 0);
  EXPECT_EQ(cli::normalize_stats(stats, DType::i64).unscaled, 9U);
}

TEST(InfoStats, count_unwritten_chunks_of_64_bit_integers_as_their_fill_value) {
  const TempDir dir;
  const std::vector<std::int64_t> fill = {(std::int64_t{1} << 54U) + 1};
  {
    H5TestFile file(dir / "s.h5");
    file.create(
        {.path = "x", .file_type = H5T_STD_I64LE, .shape = {6}, .chunk = {2}, .fill_value = bytes_of(fill)});
    const std::vector<std::uint64_t> start = {2}, count = {2};
    file.write_box("x", start, count, bytes_of<std::int64_t>({fill[0] - 1, fill[0] + 1}));
  }
  const cli::DatasetStats stats = stats_of(dir / "s.h5", "x", std::nullopt, 2);
  EXPECT_EQ(stats.values, 6U);
  EXPECT_DOUBLE_EQ(stats.channels[0].std, std::sqrt(1.0 / 3));
}

TEST(InfoStats, say_of_no_channel_of_integers_that_it_has_one_value_if_it_has_more) {
  const TempDir dir;
  constexpr std::int64_t k54 = std::int64_t{1} << 54U;
  std::vector<std::int64_t> values;
  for (std::int64_t row = 0; row < 3; ++row) values.insert(values.end(), {k54 + row, -k54 - row, k54});
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x", .file_type = H5T_STD_I64LE, .shape = {3, 3, 1, 1}, .chunk = {1, 3, 1, 1}});
    file.write("x", bytes_of(values));
  }
  const ProgramResult text =
      run_program(dir.path(), {"info", "s.h5", "--stats", "--data", "x", "--input-layout", "NCHW"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("1 channel has one value only, or no finite one: "));
  EXPECT_THAT(text.out, HasSubstr(".std = {0.816496581, 0.816496581, 1}};"));
  const ProgramResult json =
      run_program(dir.path(), {"info", "s.h5", "--stats", "--data", "x", "--input-layout", "NCHW", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const std::vector<double> found = Json::parse(json.out).at("datasets")[0].at("stats").at("std");
  EXPECT_THAT(found, ElementsAre(std::sqrt(2.0 / 3), std::sqrt(2.0 / 3), 0));
}

TEST(InfoStats, of_equal_floats_have_no_deviation_left_from_rounding) {
  const TempDir dir;
  const std::vector<double> values(100'000, 0.1);
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x", .file_type = H5T_IEEE_F64LE, .shape = {values.size()}, .chunk = {30'000}});
    file.write("x", bytes_of(values));
  }
  const cli::DatasetStats stats = stats_of(dir / "s.h5", "x", std::nullopt, 2);
  EXPECT_EQ(stats.channels[0].mean, 0.1);
  EXPECT_EQ(stats.channels[0].std, 0);
}

TEST(InfoStats, count_each_channel_in_either_layout_and_every_cut_of_the_chunks) {
  constexpr std::uint64_t kRows = 11, kHeight = 6, kWidth = 5;
  const auto bytes = patterned_bytes(kRows * 3 * kHeight * kWidth);
  const auto value = [&](std::size_t i) { return std::to_integer<std::uint8_t>(bytes[i]); };
  const TempDir dir;
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "nchw",
                 .shape = {kRows, 3, kHeight, kWidth},
                 .chunk = {4, 2, 4, 5},
                 .filters = parse_filters("gzip:1", 1)});
    file.write("nchw", bytes);
    file.create({.path = "nhwc", .shape = {kRows, kHeight, kWidth, 3}, .chunk = {3, 6, 2, 2}});
    file.write("nhwc", bytes);
    file.create({.path = "flat", .shape = {kRows, kHeight, kWidth, 3}});
    file.write("flat", bytes);
  }
  for (const std::string name : {"nchw", "nhwc", "flat"}) {
    std::vector<std::vector<std::uint8_t>> channels(3);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      channels[name == "nchw" ? i / (kHeight * kWidth) % 3 : i % 3].push_back(value(i));
    }
    const auto stats = stats_of(dir / "s.h5", name, name == "nchw" ? 1 : 3, 2);
    ASSERT_EQ(stats.channels.size(), 3U);
    EXPECT_EQ(stats.values, kRows * kHeight * kWidth);
    for (std::size_t c = 0; c < 3; ++c) {
      const auto wanted = expected(channels[c]);
      EXPECT_DOUBLE_EQ(stats.channels[c].mean, wanted.mean) << name;
      EXPECT_DOUBLE_EQ(stats.channels[c].std, wanted.std) << name;
      EXPECT_EQ(stats.channels[c].max, wanted.max) << name;
    }
  }
}

TEST(InfoStats, leave_out_what_is_not_finite_and_say_so) {
  const TempDir dir;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x", .file_type = H5T_IEEE_F32LE, .shape = {5, 2}, .chunk = {2, 2}});
    file.write("x", bytes_of<float>({1, nan, 2, 3, HUGE_VALF, 4, 1, 2, 3, 4}));
  }
  const ProgramResult result =
      run_program(dir.path(), {"info", "s.h5", "--stats", "--data", "x", "--input-layout", "none"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\n2 values are NaN or infinite and are ignored\n"));
  EXPECT_THAT(result.out, HasSubstr("\n      0   2.5  1.11803399    1    4\n"));
}

TEST(InfoStats, leave_channels_unscaled_that_have_one_value_or_none) {
  const TempDir dir;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  {
    H5TestFile file(dir / "s.h5");
    file.create({.path = "x", .file_type = H5T_IEEE_F32LE, .shape = {2, 3, 1, 2}, .chunk = {1, 3, 1, 2}});
    file.write("x", bytes_of<float>({1, 3, 7, 7, nan, HUGE_VALF, 1, 3, 7, 7, nan, nan}));
  }
  const std::vector<std::string> arguments = {"info", "s.h5", "--stats", "--data", "x"};
  const ProgramResult text = run_program(dir.path(), arguments);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\n      2     -    -    -    -\n"));
  EXPECT_THAT(
      text.out,
      HasSubstr("2 channels have one value only, or no finite one: std 1 below leaves them unscaled"));
  EXPECT_THAT(text.out, HasSubstr(".mean = {2, 7, 0},\n                     .std = {1, 1, 1}};"));
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"--write-attributes", "--json"});
  const ProgramResult json = run_program(dir.path(), as_json);
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json stats = Json::parse(json.out).at("datasets")[0].at("stats");
  EXPECT_EQ(stats.at("mean"), Json({2.0, 7.0, nullptr}));
  EXPECT_EQ(stats.at("normalize").at("std"), Json({1.0, 1.0, 1.0}));
  const Hid file(H5Fopen((dir / "s.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid attribute(H5Aopen_by_name(file.get(), "x", "max", H5P_DEFAULT, H5P_DEFAULT));
  std::vector<double> stored(3);
  require(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, stored.data()), "H5Aread");
  EXPECT_EQ(stored[1], 7);
  EXPECT_TRUE(std::isnan(stored[2]));
}

TEST(InfoStats, print_lines_to_paste_and_are_stored_as_attributes) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "30", "--shape", "3,8,8"}).exit_code,
            0);
  const auto labels = read_through_libhdf5(dir / "a.h5", "labels");
  const ProgramResult result =
      run_program(dir.path(), {"info", "a.h5", "--stats", "--write-attributes", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("reading all of /images, 5.6 KiB decoded, on "));
  const Json stats = Json::parse(result.out).at("datasets")[0].at("stats");
  const std::vector<double> means = stats.at("mean");
  ASSERT_EQ(means.size(), 3U);
  EXPECT_DOUBLE_EQ(stats.at("normalize").at("mean")[1], means[1] / 255);
  EXPECT_THAT(stats.at("code"), HasSubstr("options.normalize = {.scale = 1.0 / 255,\n"));
  for (int again = 0; again < 2; ++again) {
    const Hid file(H5Fopen((dir / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Hid attribute(H5Aopen_by_name(file.get(), "images", "mean", H5P_DEFAULT, H5P_DEFAULT));
    std::vector<double> stored(3);
    require(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, stored.data()), "H5Aread");
    EXPECT_EQ(stored, means);
    // Attributes that are there already are replaced.
    if (again == 0) {
      EXPECT_EQ(run_program(dir.path(), {"info", "a.h5", "--stats"}).exit_code, 0);
    }
  }
  EXPECT_EQ(run_program(dir.path(), {"info", "a.h5", "--stats", "--write-attributes"}).exit_code, 0);
  EXPECT_EQ(read_through_libhdf5(dir / "a.h5", "labels"), labels);
  EXPECT_EQ(run_program(dir.path(), {"info", "a.h5", "--write-attributes"}).err,
            "--write-attributes stores what --stats finds; add --stats\n");
}

TEST(InfoStats, do_not_replace_attributes_of_other_values_unless_forced) {
  const TempDir dir;
  const std::vector<std::byte> values = patterned_bytes(2 * 4 * 3 * 8 * 8);
  {
    H5TestFile file(dir / "s.h5");
    for (const std::string name : {"a", "b"}) {
      file.create({.path = name, .shape = {4, 3, 8, 8}, .chunk = {2, 3, 8, 8}});
      file.write(name, std::span(values).first(4 * 3 * 8 * 8));
    }
  }
  const std::vector<std::string> arguments = {"info", "s.h5", "--stats", "--write-attributes"};
  const auto set = [&](const std::string& dataset, const std::string& name, auto value) {
    update_attributes(dir / "s.h5", dataset, {{name, value}});
  };
  const auto expect_refused = [&](const std::string& dataset, const std::string& name) {
    const auto before = file_bytes(dir / "s.h5");
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(
        result.err,
        HasSubstr("s.h5:/" + dataset + ": its attribute " + name +
                  " is there already and differs from what --write-attributes would store; nothing was "
                  "written; rename the attribute, or replace it with --force\n"));
    EXPECT_EQ(file_bytes(dir / "s.h5"), before) << "nothing is written to the other dataset either";
  };
  set("b", "std", std::string("my own text"));
  expect_refused("b", "std");
  set("b", "mean", std::vector<double>{0.485, 0.456, 0.406});
  expect_refused("b", "mean");
  set("b", "mean", std::vector<double>{1, 2});
  expect_refused("b", "mean");
  set("b", "mean", 0.5);
  expect_refused("b", "mean");
  std::vector<std::string> forced = arguments;
  forced.emplace_back("--force");
  ProgramResult result = run_program(dir.path(), forced);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("s.h5:/b: wrote the attributes mean, std, min, max\n"));
  result = run_program(dir.path(), arguments);
  EXPECT_EQ(result.exit_code, 0) << "equal values are no error: " << result.err;
  EXPECT_EQ(run_program(dir.path(), {"info", "s.h5", "--stats", "--force"}).err,
            "--force is for --write-attributes; leave it out\n");
}

TEST(InfoStats, say_before_the_long_pass_that_the_file_cannot_be_written) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "30", "--shape", "3,8,8"}).exit_code,
            0);
  // Locked by a reader: whom a file's mode keeps from writing depends on who runs the test.
  const Hid reader(H5Fopen((dir / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const ProgramResult result = run_program(dir.path(), {"info", "a.h5", "--stats", "--write-attributes"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::MatchesRegex("a.h5:/: its attributes cannot be written [^\n]*\n"));
}

}  // namespace
}  // namespace h5feed::test
