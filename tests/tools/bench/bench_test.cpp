// SPDX-License-Identifier: Apache-2.0
// h5feed bench: every field real, rows in processes of their own, errors before the first row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/config.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/bench_runs.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Bench, reports_every_field_of_every_row) {
  const TempDir dir;
  write_samples(dir);
  const Json json = bench_json(dir, {"--target", "labels", "--num-workers", "0,2", "--batch-size", "64",
                                     "--shuffle", "chunk:4", "--runs", "2"});
  EXPECT_EQ(json.at("file"), "a.h5");
  EXPECT_EQ(json.at("version"), H5FEED_VERSION);
  EXPECT_EQ(json.at("commit"), H5FEED_COMMIT);
  EXPECT_GE(json.at("machine").at("cores"), 1);
  EXPECT_GT(json.at("machine").at("memory_bytes"), json.at("machine").at("available_bytes"));
  EXPECT_THAT(json.at("machine").at("kernel").get<std::string>(), ::testing::StartsWith("Linux "));
  EXPECT_EQ(json.at("settings").at("data"), "/images");
  EXPECT_EQ(json.at("settings").at("target"), "labels");
  EXPECT_EQ(json.at("settings").at("shuffle"), "chunk:4");
  EXPECT_EQ(json.at("settings").at("runs"), 2);
  EXPECT_GT(json.at("settings").at("cache_bytes"), 0);
  EXPECT_GT(json.at("limits").at("decode_bytes_per_s"), 0);
  EXPECT_EQ(json.at("limits").at("gather_bytes_per_s"), nullptr) << "compressed rows cannot be read singly";

  ASSERT_EQ(json.at("rows").size(), 2U);
  std::int64_t workers = 0;
  for (const Json& row : json.at("rows")) {
    EXPECT_EQ(row.at("num_workers"), workers);
    workers += 2;
    EXPECT_EQ(row.at("batch_size"), 64);
    EXPECT_EQ(row.at("repetitions").size(), 2U);
    const double samples_per_s = row.at("samples_per_s");
    EXPECT_GT(samples_per_s, 0);
    EXPECT_NEAR(row.at("bytes_per_s").get<double>(), samples_per_s * kSampleBytes, 1);
    EXPECT_EQ(row.at("limit"), "decode");
    EXPECT_GT(row.at("limit_bytes_per_s"), 0);
    EXPECT_GT(row.at("share_of_limit"), 0);
    EXPECT_GT(row.at("first_batch_ms"), 0);
    EXPECT_GT(row.at("wait_fraction"), 0);
    EXPECT_LE(row.at("wait_fraction"), 1);
    EXPECT_GT(row.at("cache_hit_rate"), 0) << "chunk:4 visits a chunk from several batches";
    EXPECT_LT(row.at("cache_hit_rate"), 1);
    EXPECT_EQ(row.at("rows_direct"), 0);
    EXPECT_GE(row.at("samples"), kSamples);
    EXPECT_GT(row.at("read_calls_per_sample"), 0);
    EXPECT_LT(row.at("read_calls_per_sample"), 1) << "a read serves a chunk of samples";
    EXPECT_DOUBLE_EQ(row.at("read_amplification"), 1) << "whole epochs that decode each chunk once";
    EXPECT_GT(row.at("cpu_s_per_1k_samples"), 0);
    EXPECT_GT(row.at("peak_rss_bytes"), kSamples * kSampleBytes);
    EXPECT_GT(row.at("samples_per_s_cached"), 0);
    EXPECT_GT(row.at("user_cpu_s").get<double>() + row.at("system_cpu_s").get<double>(), 0);
    EXPECT_TRUE(row.at("voluntary_context_switches").is_number_integer());
    EXPECT_TRUE(row.at("involuntary_context_switches").is_number_integer());
  }
}

TEST(Bench, takes_auto_alone_in_a_list_and_by_default) {
  const TempDir dir;
  write_samples(dir);
  const Json rows = bench_json(dir, {"--num-workers", "auto,1", "--runs", "1"}).at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("num_workers"), "auto");
  EXPECT_GE(rows[0].at("active_workers"), 1);
  EXPECT_GE(rows[0].at("prefetched_batches"), 1);
  EXPECT_TRUE(rows[0].at("reads_in_flight").is_number_integer());
  EXPECT_GT(rows[0].at("share_of_limit"), 0);
  EXPECT_EQ(rows[1].at("num_workers"), 1);
  EXPECT_EQ(rows[1].at("active_workers"), 1);
  const Json by_default = bench_json(dir, {"--runs", "1"});
  EXPECT_EQ(by_default.at("rows").back().at("num_workers"), "auto");
  EXPECT_GT(by_default.at("limits").at("decode_bytes_per_s"), 0);
  const ProgramResult table = run_program(
      dir.path(), {"bench", "a.h5", "--num-workers", "auto", "--runs", "1", "--time-budget", "100ms"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, ::testing::ContainsRegex("\n +auto: [0-9]+ "));
  EXPECT_THAT(table.out, HasSubstr("put into your code: options.num_workers = h5feed::kAuto;"));
}

TEST(Bench, compares_single_rows_with_the_gather_limit) {
  const TempDir dir;
  write_samples(dir, {"none"});
  // Small batches: through the cache each chunk would be read once for every one of them.
  const Json json = bench_json(
      dir, {"--num-workers", "1", "--shuffle", "full", "--cache-bytes", "64KiB", "--batch-size", "8"});
  const Json& row = json.at("rows")[0];
  EXPECT_EQ(row.at("limit"), "gather");
  EXPECT_EQ(row.at("limit_bytes_per_s"), json.at("limits").at("gather_bytes_per_s"));
  EXPECT_GT(row.at("share_of_limit"), 0);
  EXPECT_GE(row.at("rows_direct"), kSamples);
  EXPECT_GE(row.at("read_amplification"), 1);
  EXPECT_EQ(row.at("samples_per_s_cached"), nullptr) << "the data does not fit the cache";
}

TEST(Bench, passes_the_cache_policy_on) {
  const TempDir dir;
  write_samples(dir);
  const std::vector<std::string> arguments = {"--num-workers", "1",      "--shuffle",    "full",
                                              "--cache-bytes", "128KiB", "--batch-size", "8"};
  const auto decoded = [&](const char* policy) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--cache-policy", policy});
    const Json json = bench_json(dir, all);
    EXPECT_EQ(json.at("settings").at("cache_policy"), policy);
    return json.at("rows")[0].at("read_amplification").get<double>();
  };
  EXPECT_LT(decoded("clairvoyant"), decoded("lru"));
  EXPECT_GT(decoded("keep_first"), 1);
}

TEST(Bench, goes_on_after_bad_chunks_if_told_to) {
  const TempDir dir;
  write_samples(dir);
  const auto file = H5File::open(dir / "a.h5");
  const ChunkLocation chunk = build_chunk_index(*file, file->describe("images")).locations.at(3);
  damage(dir / "a.h5", chunk.address + chunk.stored_bytes / 2, 8);

  const std::vector<std::string> arguments = {"--num-workers",   "0,1", "--runs", "1",
                                              "--max-bad-share", "0.2"};
  const ProgramResult fails = run_program(dir.path(), {"bench", "a.h5", "--num-workers", "1"});
  EXPECT_EQ(fails.exit_code, 1);
  for (const auto& [how, counted] : {std::pair("skip", "samples_skipped"), {"replace", "samples_replaced"}}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--on-error", how});
    const Json json = bench_json(dir, all);
    EXPECT_EQ(json.at("settings").at("on_error"), how);
    EXPECT_EQ(json.at("settings").at("max_bad_share"), 0.2);
    EXPECT_GT(json.at("limits").at("decode_bytes_per_s"), 0) << "which passes over the bad chunk";
    for (const Json& row : json.at("rows")) {
      EXPECT_EQ(row.at("epoch_share"), 1.0);
      EXPECT_GT(row.at(counted), 0);
      const std::uint64_t bad =
          row.at("samples_skipped").get<std::uint64_t>() + row.at("samples_replaced").get<std::uint64_t>();
      EXPECT_EQ(row.at(counted), bad);
      EXPECT_EQ(bad % 64, 0U) << "samples of one chunk";
    }
  }
}

TEST(Bench, prints_rows_a_verdict_and_the_code_to_write) {
  const TempDir dir;
  write_samples(dir);
  const ProgramResult result = run_program(
      dir.path(), {"bench", "a.h5", "--workers", "1", "--shuffle", "chunk:4", "--time-budget", "200ms"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      MatchesRegex("measuring a.h5:/images \\(640×3×16×16 u8, [0-9]+ KiB stored\\): 1 row of about 0.2 s, "
                   "0.2 s in all; each pass starts with an empty cache and reads warm pages\n"));
  EXPECT_THAT(result.out, ::testing::StartsWith("num_workers    samples/s  spread      data/s "));
  EXPECT_THAT(result.out,
              ::testing::ContainsRegex(
                  "best: num_workers=1 \\([0-9,]+ samples/s, [0-9]+ % of the decode limit\\)\n"
                  "put into your code: options.num_workers = 1; options.shuffle = \"chunk:4\";\n$"));
}

TEST(Bench, recommends_nothing_where_one_batch_was_repeated) {
  const TempDir dir;
  write_samples(dir);
  const ProgramResult result =
      run_program(dir.path(), {"bench", "a.h5", "--workers", "0,1", "--headroom", "--time-budget", "200ms"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr("headroom: each row repeats its first batch, so that none "
                                               "tells how fast the file is read; "));
  EXPECT_THAT(result.out, ::testing::Not(::testing::HasSubstr("put into your code")));
  EXPECT_THAT(result.out, ::testing::Not(::testing::HasSubstr("% decode"))) << "no share of a limit";
}

TEST(Bench, says_why_an_epoch_log_got_no_line) {
  const TempDir dir;
  write_samples(dir);
  for (const char* time : {"1ms", "2s"}) {
    std::filesystem::remove(dir / "epochs.jsonl");
    const ProgramResult result =
        run_program(dir.path(), {"bench", "a.h5", "--workers", "1", "--batch-size", "1", "--epoch-log",
                                 "epochs.jsonl", "--time-budget", time});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const bool said = result.out.find(
                          "epochs.jsonl got no line: no epoch was measured to its end; give a "
                          "longer --time-budget\n") != std::string::npos;
    EXPECT_EQ(said, !std::filesystem::exists(dir / "epochs.jsonl")) << time;
  }
}

TEST(Bench, saves_its_rows_as_they_come) {
  const TempDir dir;
  write_samples(dir);
  ASSERT_EQ(run_program(dir.path(), {"bench", "a.h5", "--num-workers", "0,1", "--time-budget", "200ms",
                                     "--export-json", "r.json", "--export-csv", "r.csv"})
                .exit_code,
            0);
  const auto bytes = file_bytes(dir / "r.json");
  EXPECT_EQ(
      Json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())).at("rows").size(),
      2U);
  EXPECT_THAT(names_in(dir.path()), ::testing::ElementsAre("a.h5", "r.csv", "r.json"));
}

TEST(Bench, names_the_datasets_to_choose_from_and_what_to_type) {
  const TempDir dir;
  {
    H5TestFile file(dir / "fashion.h5");
    for (const auto& [group, rows] : {std::pair{std::string("train"), 30U}, {std::string("test"), 10U}}) {
      const Hid id(H5Gcreate2(file.id(), group.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      file.create({.path = group + "/images", .shape = {rows, 4, 4}});
      file.create({.path = group + "/labels", .shape = {rows}});
    }
  }
  const ProgramResult result = run_program(dir.path(), {"bench", "fashion.h5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(
      result.err,
      "fashion.h5: two datasets look like images: /train/images, /test/images. Try: h5feed bench fashion.h5 "
      "--data train/images --target train/labels\n");
  EXPECT_EQ(result.out, "");
}

TEST(Bench, refuses_options_the_loader_refuses_before_the_first_row) {
  const TempDir dir;
  write_samples(dir);
  const auto refused = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"bench", "a.h5"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(refused({"--batch-size", "0"}), "--batch-size 0: give at least 1, or none for single samples\n");
  EXPECT_THAT(refused({"--memory-budget-bytes", "64KiB"}),
              MatchesRegex("--memory-budget-bytes 64 KiB cannot hold --batch-size [^\n]*\n"));
  EXPECT_THAT(refused({"--shuffle", "chunks"}), MatchesRegex("--shuffle \"chunks\" [^\n]*\n"));
  EXPECT_EQ(refused({"--tile-size", "8", "--tile-edges", "round"}),
            "--tile-edges \"round\": give drop, pad or shift\n");
  EXPECT_THAT(refused({"--cache-policy", "never"}), HasSubstr("lru, clairvoyant or keep_first"));
  EXPECT_THAT(refused({"--on-error", "ignore"}), HasSubstr("fail, skip or replace"));
  EXPECT_THAT(refused({"--on-error", "skip", "--max-bad-share", "2"}), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(refused({"--batch-size", "none", "--on-error", "skip"}), HasSubstr("--on-error"));
  EXPECT_EQ(refused({"--max-bad-share", "0.5"}), "--max-bad-share needs --on-error skip or replace\n");
  EXPECT_EQ(
      refused({"--tile-size", "8x8x3x3"}),
      "--tile-size \"8x8x3x3\": give pixels, such as 512, or 512x768 for height and width, or 64x128x128 for "
      "depth, height and width\n");
  EXPECT_THAT(refused({"--tile-size", "3x8x8"}),
              HasSubstr("--tile-size 3×8×8 has a depth, and the images have "));
  EXPECT_EQ(refused({"--tile-size", "8", "--tile-turns", "round"}),
            "--tile-turns \"round\": give none, flips, planar or all\n");
  EXPECT_THAT(refused({"--tile-size", "8", "--tile-per-image", "2", "--tile-foreground", "1.5"}),
              HasSubstr("--tile-foreground \"1.5\""));
  EXPECT_THAT(refused({"--tile-size", "8", "--tile-per-image", "2", "--tile-foreground", "0.5"}),
              HasSubstr("--tile-foreground needs labels: name their dataset as --target"));
  EXPECT_EQ(refused({"--tile-per-image", "2"}), "--tile-per-image needs --tile-size\n");
  EXPECT_EQ(refused({"--tile-overlap", "2"}), "--tile-overlap needs --tile-size\n");
  EXPECT_EQ(refused({"--shard", "halves"}), "--shard needs --world-size\n");
  EXPECT_EQ(refused({"--python", "python3"}), "--python needs --peer\n");
  EXPECT_EQ(refused({"--scratch", "."}), "--scratch needs --peer\n");
  EXPECT_EQ(refused({"--tile-size", "8", "--tile-stride", "0"}),
            "--tile-stride \"0\": give pixels, such as 512, or 512x768 for height and width, or 64x128x128 "
            "for depth, "
            "height and width\n");
}

TEST(Bench, measures_tiles_of_images) {
  const TempDir dir;
  write_samples(dir);
  const Json json =
      bench_json(dir, {"--tile-size", "8x16", "--target", "labels", "--num-workers", "1", "--runs", "1"});
  EXPECT_EQ(json.at("settings").at("tiles").at("size"), (Json{8, 16}));
  const Json& row = json.at("rows")[0];
  // A slow machine gets through a part of an epoch in its time.
  const double epochs = row.at("samples").get<double>() / (2.0 * kSamples);
  const double share = row.at("epoch_share");
  EXPECT_NEAR(epochs, share < 1 ? share : std::round(epochs), 1e-9) << "two tiles an image";
  EXPECT_GT(row.at("share_of_limit"), 0);
}

TEST(Bench, says_what_measures_a_gpu) {
  const TempDir dir;
  write_samples(dir);
  const ProgramResult gpu = run_program(dir.path(), {"bench", "a.h5", "--device", "cuda:0"});
  EXPECT_EQ(gpu.exit_code, 2);
  EXPECT_THAT(gpu.err, HasSubstr("--device \"cuda:0\": this program measures delivery to the CPU"));
  EXPECT_THAT(gpu.err, HasSubstr("tools/gpu_check.sh bench"));
}

TEST(Bench, delivers_single_samples_where_asked_to) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "20", "--shape", "1,8,8"}).exit_code,
            0);
  const ProgramResult result = run_program(
      dir.path(),
      {"bench", "a.h5", "--num-workers", "0", "--time-budget", "100ms", "--batch-size", "none", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Json::parse(result.out).at("rows")[0].at("batch_size").is_null());
}

TEST(Bench, names_options_of_the_program_where_the_data_is_not_clear) {
  const TempDir dir;
  ASSERT_EQ(
      run_program(dir.path(), {"generate", "t.h5", "--kind", "tokens", "--samples", "30", "--shape", "16"})
          .exit_code,
      0);
  EXPECT_EQ(run_program(dir.path(), {"bench", "t.h5"}).err,
            "t.h5: no dataset looks like images; it has /labels (30 u8), /tokens (30×16 i64). Try: h5feed "
            "bench t.h5 --data tokens --target labels\n");
  {
    H5TestFile file(dir / "m.h5");
    file.create({.path = "maps", .file_type = H5T_IEEE_F32LE, .shape = {30, 4, 4}});
  }
  EXPECT_EQ(run_program(dir.path(), {"bench", "m.h5", "--data", "maps"}).err,
            "m.h5:/maps (30×4×4 f32): its layout is ambiguous; state it: --input-layout "
            "NCHW, NHWC, NHW, or none to deliver it as stored\n");
}

TEST(Bench, fails_with_the_error_of_a_corrupt_chunk) {
  const TempDir dir;
  {
    H5TestFile file(dir / "c.h5");
    file.create(
        {.path = "images", .shape = {8, 4, 4}, .chunk = {4, 4, 4}, .filters = parse_filters("gzip:4", 1)});
    const std::vector<std::uint64_t> offset = {4, 0, 0};
    file.write("images", patterned_bytes(8 * 16));
    file.write_chunk("images", offset, random_bytes(30));
  }
  const ProgramResult result =
      run_program(dir.path(), {"bench", "c.h5", "--num-workers", "1", "--time-budget", "200ms"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("\nc.h5:/images: chunk (1,0,0) (samples 4-7)"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("best:")));
}

TEST(Bench, leaves_no_empty_epoch_log_where_there_is_no_space) {
  const TempDir dir;
  write_samples(dir);
  for (const bool json : {true, false}) {
    std::vector<std::string> arguments = {"bench",       "a.h5",  "--workers",     "1",
                                          "--epoch-log", "e.log", "--time-budget", "200ms"};
    if (json) arguments.emplace_back("--json");
    const ProgramResult result = run_program(dir.path(), arguments, {.file_bytes = 0});
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(json ? result.err : result.out,
                ::testing::HasSubstr("e.log got no line: no space is left there"));
    EXPECT_THAT(names_in(dir.path()), ::testing::ElementsAre("a.h5"));
  }
}

TEST(Bench, ends_within_a_chunk_of_very_many_samples) {
  const TempDir dir;
  // Never written, so it takes no space: a chunk is delivered in minutes.
  H5TestFile(dir / "a.h5")
      .create({.path = "x", .shape = {std::uint64_t{1} << 40, 1}, .chunk = {std::uint64_t{1} << 26, 1}});
  const ProgramResult result = run_program(
      dir.path(),
      {"bench", "a.h5", "--data", "x", "--num-workers", "0", "--batch-size", "1", "--time-budget", "300ms"},
      {.timeout = std::chrono::seconds(100)});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace h5feed::test
