// SPDX-License-Identifier: Apache-2.0
// Parts of the program that need no process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "support/refusal.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/settings.hpp"
#include "tools/measure/statistics.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/image_choice.hpp"
#include "tools/storage/parallel_write.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OptionText, reads_times_in_seconds_unless_a_unit_is_given) {
  using std::chrono::milliseconds;
  EXPECT_EQ(parse_duration("--t", "3"), milliseconds(3000));
  EXPECT_EQ(parse_duration("--t", "0.25s"), milliseconds(250));
  EXPECT_EQ(parse_duration("--t", "500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("--t", "2m"), milliseconds(120000));
  for (const char* text : {"", "s", "-1s", "0", "3h", "1e9", "nan", "3 s x", "90000s"}) {
    EXPECT_THROW(parse_duration("--t", text), OptionError) << text;
  }
}

TEST(OptionText, reads_shapes_whose_elements_can_be_counted) {
  EXPECT_THAT(parse_shape("--shape", "3,224,224"), ElementsAre(3, 224, 224));
  EXPECT_THAT(parse_shape("--shape", "28x28"), ElementsAre(28, 28));
  for (const char* text : {"", "3,", "0", "-1", "3;4", "4294967296,4294967296"}) {
    EXPECT_THROW(parse_shape("--shape", text), OptionError) << text;
  }
}

TEST(OptionText, reads_chunks_as_samples_auto_or_none) {
  EXPECT_EQ(parse_chunk("--chunk", "64", true), std::uint64_t{64});
  EXPECT_EQ(parse_chunk("--chunk", "none", false), std::uint64_t{0});
  EXPECT_EQ(parse_chunk("--chunk", "auto", true), std::nullopt);
  EXPECT_THROW(parse_chunk("--chunk", "auto", false), OptionError);
  EXPECT_THROW(parse_chunk("--chunk", "0", true), OptionError);
}

TEST(OptionText, calls_large_numbers_too_large_and_not_misformed) {
  using test::refusal_of;
  EXPECT_EQ(refusal_of<OptionError>([] { parse_size("--memory", "99999999999GiB"); }),
            "--memory \"99999999999GiB\" is too large; give at most 4 EiB (2^62 bytes)");
  EXPECT_EQ(parse_size("--memory", "4EiB"), std::uint64_t{1} << 62U);
  EXPECT_EQ(parse_size("--memory", "2PB"), 2'000'000'000'000'000U);
  for (const char* text : {"99999999999.5 GiB", "9223372036854775808", "18446744073709551616",
                           "99999999999999999999999T", "16EiB"})
    EXPECT_THAT(refusal_of<OptionError>([&] { parse_size("--memory", text); }), HasSubstr("is too large"));
  for (const char* text : {"99999999999GiG", "-99999999999GiB", "1.2.3GiB", "GiB", "", "1e99"})
    EXPECT_THAT(refusal_of<OptionError>([&] { parse_size("--memory", text); }),
                HasSubstr("give a size such as"));
  EXPECT_EQ(refusal_of<OptionError>([] { parse_number("--seed", "18446744073709551616"); }),
            "--seed \"18446744073709551616\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_list("--num-workers", "1,9223372036854775808"); }),
            "--num-workers \"9223372036854775808\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_chunk("--chunk", "99999999999999999999", true); }),
            "--chunk \"99999999999999999999\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_integer("--batch-size", "9223372036854775808"); }),
            "--batch-size \"9223372036854775808\" is too large; give a smaller number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_integer("--low", "-9223372036854775809"); }),
            "--low \"-9223372036854775809\" is too small; give a larger number");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_shape("--shape", "4294967296,4294967296"); }),
            "--shape \"4294967296,4294967296\" is too large; its product must be below 2^63");
  EXPECT_EQ(refusal_of<OptionError>([] { parse_duration("--time-budget", "90000s"); }),
            "--time-budget \"90000s\" is too long; give at most a day (1440m)");
}

TEST(OptionText, reads_layouts_in_any_case) {
  EXPECT_EQ(parse_layout("--input-layout", "nhwc"), InputLayout::nhwc);
  EXPECT_EQ(parse_layout("--input-layout", "NCHW"), InputLayout::nchw);
  EXPECT_THROW(parse_layout("--input-layout", "CHWN"), OptionError);
  EXPECT_EQ(parse_cache_policy("--cache-policy", "Clairvoyant"), CachePolicy::clairvoyant);
  EXPECT_THROW(parse_cache_policy("--cache-policy", "belady"), OptionError);
}

TEST(Statistics, has_the_median_and_the_spread_of_repetitions) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(relative_spread({90, 100, 120}), 0.3);
  EXPECT_EQ(relative_spread({}), 0);
}

TEST(Table, aligns_text_of_any_script_and_numbers_to_the_right) {
  Table table({{"name"}, {"count", true}});
  table.add_row({"3×4", "7"});
  table.add_row({"longer", "1,000"});
  EXPECT_EQ(table.to_text(),
            "name    count\n"
            "3×4         7\n"
            "longer  1,000\n");
}

TEST(Table, quotes_what_csv_and_markdown_would_misread) {
  Table table({{"a"}, {"b", true}});
  table.add_row({"x,\"y\"", "p|q"});
  EXPECT_EQ(table.to_csv(), "a,b\n\"x,\"\"y\"\"\",p|q\n");
  EXPECT_EQ(table.to_markdown(), "| a | b |\n|---|---:|\n| x,\"y\" | p\\|q |\n");
}

TEST(Table, control_characters_of_a_file_do_not_reach_the_terminal) {
  EXPECT_EQ(printable("/a\x1b[31m\n×"), "/a?[31m?×");
}

TEST(ProgressLine, shows_share_rate_and_time_left) {
  EXPECT_EQ(progress_line("pack", ProgressUnit::bytes, 100.0 * kMiB, 400.0 * kMiB, 10, 60),
            "pack [######....................]  25 %  10 MiB/s  30 s left");
  EXPECT_EQ(progress_line("bench", ProgressUnit::seconds, 90, 120, 90, 50),
            "bench [##################.......]  75 %  30 s left");
}

TEST(ProgressLine, fits_narrow_terminals_and_has_no_figure_before_the_start) {
  EXPECT_EQ(progress_line("pack", ProgressUnit::bytes, 0, 100, 0, 20), "pack [.......]   0 %");
  EXPECT_LE(display_width(progress_line("a long label", ProgressUnit::bytes, 1, 100, 1, 10)), 10U);
}

TEST(AutomaticChunks, are_about_a_mebibyte_of_whole_samples_in_round_numbers) {
  EXPECT_EQ(automatic_chunk_rows(60000, 28 * 28), 1000U);
  EXPECT_EQ(automatic_chunk_rows(60000, 3 * 224 * 224), 5U);
  EXPECT_EQ(automatic_chunk_rows(60000, 1), 20000U);
  EXPECT_EQ(automatic_chunk_rows(300, 1), 300U);
  EXPECT_EQ(automatic_chunk_rows(10, 64 * kMiB), 1U);
}

DatasetEntry entry(const std::string& path, std::vector<std::uint64_t> shape, bool numeric = true) {
  return {.path = path, .shape = std::move(shape), .type_text = "u8", .numeric = numeric};
}

TEST(ImageChoice, finds_the_labels_beside_images) {
  const DatasetEntry images = entry("/train/images", {30, 4, 4});
  EXPECT_EQ(labels_beside(images, {images, entry("/train/ids", {30}), entry("/train/labels", {30})}),
            "/train/labels");
  EXPECT_EQ(labels_beside(images, {images, entry("/train/ids", {30, 1})}), "/train/ids");
  EXPECT_EQ(labels_beside(images, {images, entry("/test/labels", {30}), entry("/train/labels", {29}),
                                   entry("/train/boxes", {30, 4}), entry("/train/names", {30}, false)}),
            "");
}

TEST(ImageChoice, tells_why_labels_are_none) {
  const DatasetEntry images = entry("/train/images", {30, 4, 4});
  const auto why = [&](const DatasetEntry& labels) { return why_no_labels(images, {images, labels}); };
  EXPECT_EQ(why(entry("/train/labels", {29})), "/train/labels has 29 rows, not 30");
  EXPECT_EQ(why(entry("/train/y", {})), "/train/y is a single value");
  EXPECT_EQ(why(entry("/train/targets", {30, 10})),
            "/train/targets has several numbers per row; --target /train/targets delivers them as stored");
  EXPECT_EQ(why(entry("/train/labels", {30}, false)), "/train/labels holds no numbers (u8)");
  for (const DatasetEntry& none :
       {entry("/train/labels", {30}), entry("/test/labels", {29}), entry("/train/ids", {29})})
    EXPECT_EQ(why(none), "") << none.path;
}

TEST(Printable, replaces_control_characters_and_bytes_that_are_not_utf8) {
  EXPECT_EQ(printable("caf\xC3\xA9 3×4 \xF0\x9F\x99\x82"), "caf\xC3\xA9 3×4 \xF0\x9F\x99\x82");
  EXPECT_EQ(printable("a\x1B[2J\n\x7F"), "a?[2J??");
  EXPECT_EQ(printable("\xE9t\xC3"), "?t?");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m \xC0\xAF \xED\xA0\x80"),
            "?1m ?? ???");
}

Json row(std::int64_t workers, double samples_per_s, double share) {
  return {{"num_workers", workers},  {"samples_per_s", samples_per_s},
          {"share_of_limit", share}, {"read_amplification", 1.0},
          {"limit", "decode"},       {"share_of_cold_limit", nullptr},
          {"cold_limit", nullptr},   {"page_cache", "warm"}};
}

TEST(BenchVerdict, names_the_fastest_row_and_the_code) {
  const Json rows = {row(0, 1000, 0.9), row(1, 3000, 0.95), row(4, 6420.4, 0.94)};
  EXPECT_EQ(bench_verdict(rows, "chunk:16"),
            "best: num_workers=4 (6,420 samples/s, 94 % of the decode limit)\n"
            "put into your code: options.num_workers = 4; options.shuffle = \"chunk:16\";\n");
  EXPECT_EQ(bench_verdict(Json::array({rows[0]}), "sequential"),
            "best: num_workers=0 (1,000 samples/s, 90 % of the decode limit)\n"
            "put into your code: options.num_workers = 0;\n");
}

TEST(BenchVerdict, prefers_fewer_workers_that_are_as_fast) {
  EXPECT_EQ(best_row({row(0, 500, 1), row(2, 980, 1), row(4, 1000, 1), row(8, 900, 1)}).at("num_workers"), 2);
}

TEST(BenchVerdict, claims_no_limit_where_nothing_was_decoded) {
  Json cached = row(2, 5000, 0);
  cached["share_of_limit"] = nullptr;
  cached["read_amplification"] = 0.0;
  EXPECT_EQ(bench_verdict(Json::array({cached}), "sequential"),
            "best: num_workers=2 (5,000 samples/s, from the cache)\n"
            "put into your code: options.num_workers = 2;\n");
}

TEST(BenchVerdict, tells_warm_rows_from_cold_ones_and_recommends_for_the_cold) {
  Json cold = row(4, 2000, 0);
  cold["share_of_limit"] = nullptr;
  cold["share_of_cold_limit"] = 0.93;
  cold["cold_limit"] = "sequential";
  cold["page_cache"] = "cold";
  EXPECT_EQ(bench_verdict(Json::array({row(2, 5000, 0.9), cold}), "sequential"),
            "best with warm pages: num_workers=2 (5,000 samples/s, 90 % of the decode limit)\n"
            "best with cold pages: num_workers=4 (2,000 samples/s, 93 % of the cold sequential limit)\n"
            "put into your code: options.num_workers = 4;\n");
}

TEST(RowWarnings, say_where_pages_were_neither_all_cold_nor_all_warm) {
  Json warm = row(2, 5000, 0.9);
  warm["repetitions"] = {5000.0, 5010.0};
  warm["epoch_share"] = 1.0;
  warm["resident_share"] = 1.0;
  EXPECT_EQ(row_warnings(warm), "");
  warm["resident_share"] = 0.4;
  EXPECT_EQ(row_warnings(warm),
            "num_workers=2: 40 % of the file's pages were in memory; it is not all warm\n");
  Json cold = warm;
  cold["page_cache"] = "cold";
  cold["resident_share"] = 0.01;
  EXPECT_EQ(row_warnings(cold), "");
  cold["resident_share"] = 0.05;
  EXPECT_EQ(row_warnings(cold),
            "num_workers=2: up to 5 % of the file's pages stayed in memory; it is not all cold\n");
  cold["resident_share"] = nullptr;
  EXPECT_EQ(row_warnings(cold), "");
}

TEST(RowRequest, reaches_the_measuring_process_unchanged) {
  RowRequest request{
      .settings = {.file = "caf\xe9 \"b\".h5", .data = "x", .batch_size = 7, .shuffle = "chunk:3"}};
  request.settings.cache_bytes = 5;
  request.settings.normalize = true;
  request.cold = true;
  request.settings.seed = 0xFFFFFFFFFFFFFFFF;
  request.settings.time_budget = std::chrono::milliseconds(250);
  request.num_workers = 3;
  request.quiet = true;
  const RowRequest arrived = row_request_from(to_arguments(request));
  EXPECT_EQ(arrived.settings.file, request.settings.file) << "a name that is not UTF-8";
  EXPECT_EQ(to_json(arrived.settings), to_json(request.settings));
  EXPECT_EQ(arrived.num_workers, 3);
  EXPECT_TRUE(arrived.cold);
  EXPECT_TRUE(arrived.quiet);
}

TEST(RowRequest, carries_every_setting_of_the_command_line) {
  const std::map<std::string, std::string> other = {{"input_layout", "NHWC"},
                                                    {"batch_size", "none"},
                                                    {"shuffle", "chunk:3"},
                                                    {"cache_bytes", "5KiB"},
                                                    {"cache_policy", "keep_first"},
                                                    {"memory_budget_bytes", "1MiB"},
                                                    {"seed", "7"},
                                                    {"runs", "9"},
                                                    {"warmup", "0"},
                                                    {"time_budget_s", "250ms"}};
  std::map<std::string, std::string> texts, defaults;
  for (const auto& fields : {dataset_fields(), loader_fields()}) {
    for (const BenchField& field : fields) {
      const auto found = other.find(field.key);
      texts[field.key] = found != other.end() ? found->second : "x";
      defaults[field.key] = field.default_text;
    }
  }
  const Json before = to_json(settings_from(defaults));
  EXPECT_EQ(before, to_json(BenchSettings()));
  RowRequest request;
  request.settings = settings_from(texts);
  const Json after = to_json(row_request_from(to_arguments(request)).settings);
  EXPECT_EQ(after, to_json(request.settings));
  for (const auto& [key, value] : after.items()) EXPECT_NE(value, before.at(key)) << key;
}

}  // namespace
}  // namespace h5feed::test
