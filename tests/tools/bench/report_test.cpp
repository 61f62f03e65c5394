// SPDX-License-Identifier: Apache-2.0
// h5feed bench: what it says of its rows, and how a row's settings reach the process that measures it.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/settings.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it

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

TEST(BenchVerdict, prefers_auto_where_it_is_as_fast) {
  Json self = row(0, 6300, 0.93);
  self["num_workers"] = "auto";
  EXPECT_EQ(bench_verdict({row(1, 3000, 0.95), row(4, 6420, 0.94), self}, "chunk:16", "lru"),
            "best: num_workers=auto (6,300 samples/s, 93 % of the decode limit)\n"
            "put into your code: options.num_workers = h5feed::kAuto; options.shuffle = \"chunk:16\";\n");
  self["samples_per_s"] = 5000;
  EXPECT_EQ(best_row({row(1, 3000, 0.95), row(4, 6420, 0.94), self}).at("num_workers"), 4);
}

TEST(BenchVerdict, has_the_treatment_of_bad_data_in_the_code) {
  EXPECT_EQ(bench_verdict(Json::array({row(2, 980, 0.9)}), "sequential", "lru", "skip"),
            "best: num_workers=2 (980 samples/s, 90 % of the decode limit)\n"
            "put into your code: options.num_workers = 2; options.on_error = h5feed::OnError::skip;\n");
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

TEST(RowWarnings, count_the_samples_that_could_not_be_read) {
  Json bad = row(2, 5000, 0.9);
  bad["repetitions"] = {5000.0, 5010.0};
  bad["epoch_share"] = 1.0;
  bad["resident_share"] = 1.0;
  bad["samples"] = 6400;
  bad["samples_skipped"] = 64;
  EXPECT_EQ(row_warnings(bad), "num_workers=2: 64 of 6,400 samples could not be read and were left out\n");
  bad["samples_skipped"] = 0;
  bad["samples_replaced"] = 64;
  EXPECT_EQ(row_warnings(bad), "num_workers=2: 64 of 6,400 samples could not be read and were replaced\n");
}

TEST(CheapestRow, feeds_the_target_in_every_repetition_with_the_least_cpu_time) {
  const auto measured = [](std::int64_t workers, std::vector<double> repetitions, double cpu, int memory) {
    Json made = row(workers, repetitions.front(), 0.9);
    made["repetitions"] = repetitions;
    made["cpu_s_per_1k_samples"] = cpu;
    made["peak_rss_bytes"] = memory;
    return made;
  };
  const Json rows = {measured(1, {900, 1000, 1100}, 0.1, 1 << 20), measured(2, {1900, 2000}, 0.2, 1 << 20),
                     measured(4, {4000, 4100}, 0.2, 1 << 19)};
  EXPECT_EQ(cheapest_row(rows, 900), 0U);
  EXPECT_EQ(cheapest_row(rows, 1000), 2U) << "the first row is slower at times; the last needs less memory";
  EXPECT_EQ(cheapest_row(rows, 5000), std::nullopt);
  EXPECT_EQ(
      target_verdict(rows, 2500),
      "cheapest for 2,500 samples/s: num_workers=4 (4,000 samples/s; at the target 0.50 CPU cores and 512 "
      "KiB)\n");
  EXPECT_EQ(
      target_verdict(rows, 8000),
      "no setting here feeds 8,000 samples/s in every repetition: num_workers=4 reaches 4,000, 0.5 of it; "
      "h5feed tune finds chunks and filters that are faster to read\n");
}

TEST(BenchVerdict, has_swept_settings_in_the_name_and_the_code) {
  Json swept = row(2, 980, 0.9);
  swept["swept"] = {{"batch_size", 64}, {"shuffle", "chunk:4"}, {"echo", 2}};
  EXPECT_EQ(
      bench_verdict(Json::array({swept}), "sequential"),
      "best: num_workers=2 batch_size=64 shuffle=chunk:4 echo=2 (980 samples/s, 90 % of the decode limit)\n"
      "put into your code: options.num_workers = 2; options.shuffle = \"chunk:4\"; options.batch_size = 64; "
      "options.echo.factor = 2;\n");
}

TEST(BusyWarning, names_the_share_of_other_processes) {
  Json quiet = row(1, 100, 1), busy = row(2, 100, 1);
  quiet["busy_elsewhere"] = 0.02;
  busy["busy_elsewhere"] = 0.6;
  EXPECT_EQ(busy_warning({quiet, row(4, 100, 1)}), "");
  EXPECT_EQ(
      busy_warning({quiet, busy}),
      "other processes used up to 60 % of the machine's CPUs; the rates are lower than on an idle one\n");
}

TEST(RowRequest, reaches_the_measuring_process_unchanged) {
  RowRequest request;
  request.settings.dataset = {.files = {"caf\xe9 \"b\".h5"},
                              .data = "x",
                              .tiles = TileOptions{.size = {8, 16}, .edges = TileEdges::pad},
                              .fields = {{.name = "boxes", .collate = Collate::ragged}},
                              .stage_dir = "/tmp"};
  request.settings.loader.batch_size = 7;
  request.settings.loader.shuffle = "chunk:3";
  request.settings.loader.cache_bytes = 5;
  request.settings.loader.normalize = Normalize{.mean = {0.5}};
  request.settings.loader.timeout = std::chrono::milliseconds(1500);
  request.settings.loader.seed = 0xFFFFFFFFFFFFFFFF;
  request.settings.time_budget = std::chrono::milliseconds(250);
  request.cold = true;
  request.rate_only = true;
  request.num_workers = 3;
  request.quiet = true;
  const RowRequest arrived = row_request_from(to_arguments(request));
  EXPECT_EQ(arrived.settings.file(), request.settings.file()) << "a name that is not UTF-8";
  EXPECT_EQ(to_json(arrived.settings), to_json(request.settings));
  EXPECT_EQ(arrived.settings.loader.timeout, request.settings.loader.timeout);
  EXPECT_EQ(arrived.settings.dataset.tiles->size.width, 16);
  EXPECT_EQ(arrived.settings.dataset.fields.at(0).collate, Collate::ragged);
  EXPECT_EQ(arrived.num_workers, 3);
  EXPECT_TRUE(arrived.cold);
  EXPECT_TRUE(arrived.rate_only);
  EXPECT_TRUE(arrived.quiet);
}

TEST(RowRequest, carries_every_setting_of_the_command_line) {
  const std::map<std::string, std::string> other = {{"input_layout", "NHWC"},
                                                    {"batch_size", "none"},
                                                    {"shuffle", "chunk:3"},
                                                    {"cache_bytes", "5KiB"},
                                                    {"memory_budget_bytes", "1MiB"},
                                                    {"cache_policy", "keep_first"},
                                                    {"on_error", "replace"},
                                                    {"max_bad_share", "0.5"},
                                                    {"seed", "7"},
                                                    {"runs", "9"},
                                                    {"warmup", "0"},
                                                    {"time_budget_s", "250ms"},
                                                    {"tile_size", "8"},
                                                    {"tile_stride", "4"},
                                                    {"tile_overlap", "2"},
                                                    {"tile_edges", "pad"},
                                                    {"tile_per_image", "3"},
                                                    {"tile_foreground", "0.5"},
                                                    {"tile_min_foreground", "0.5"},
                                                    {"tile_turns", "all"},
                                                    {"sample", "dataset"},
                                                    {"image_size", "32"},
                                                    {"image_color", "gray"}};
  SettingTexts texts, defaults;
  for (const auto& fields : {dataset_fields(), loader_fields()}) {
    for (const BenchField& field : fields) {
      const auto found = other.find(field.key);
      texts[field.key] = {found != other.end() ? found->second : "x"};
      if (!field.default_text.empty()) defaults[field.key] = {field.default_text};
    }
  }
  EXPECT_EQ(to_json(settings_from(defaults)), to_json(BenchSettings())) << "defaults as --help shows them";
  RowRequest request;
  request.settings = settings_from(texts);
  const Json sent = to_json(request.settings);
  EXPECT_EQ(to_json(row_request_from(to_arguments(request)).settings), sent);
  const Json before = to_json(BenchSettings());
  for (const auto& [key, value] : before.items()) EXPECT_NE(sent.value(key, Json()), value) << key;
  for (const char* key :
       {"tiles", "images", "fields", "target_files", "stage_dir", "trace_path", "epoch_log", "headroom"})
    EXPECT_TRUE(sent.contains(key)) << key;
}

TEST(Setting, of_processes_on_the_host_holds_where_it_is_given) {
  RowRequest request{.num_workers = kAuto, .world_size = 2};
  EXPECT_EQ(loader_options(request).local_world_size, 2) << "the ranks that bench starts";
  request.settings.loader.local_world_size = 8;
  EXPECT_EQ(loader_options(request).local_world_size, 8);
}

TEST(Setting, is_set_by_its_name_in_the_library) {
  BenchSettings settings;
  set_by_name(settings, "--set", "prefetch_factor", "4");
  set_by_name(settings, "--set", "prefetch_bytes", "64MiB");
  set_by_name(settings, "--set", "echo", "3");
  set_by_name(settings, "--set", "augment", R"({"horizontal_flip": 0.5})");
  set_by_name(settings, "--set", "cache_bytes", "1KiB");
  set_by_name(settings, "--set", "unit_range", "true");
  EXPECT_EQ(settings.loader.prefetch_factor, 4);
  EXPECT_EQ(settings.loader.prefetch_bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(settings.loader.echo.factor, 3);
  EXPECT_EQ(settings.loader.augment->horizontal_flip, 0.5);
  EXPECT_EQ(settings.loader.cache_bytes, 1024U);
  EXPECT_TRUE(settings.dataset.unit_range);
  EXPECT_THROW(set_by_name(settings, "--set", "batchsize", "4"), OptionError);
  EXPECT_THROW(set_by_name(settings, "--set", "shard", "byte"), OptionError);
  EXPECT_THROW(set_by_name(settings, "--set", "io_depth", "many"), OptionError);
}

}  // namespace
}  // namespace h5feed::test
