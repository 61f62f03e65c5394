// SPDX-License-Identifier: Apache-2.0
// h5feed tune: the model by itself, and the program as far as time does not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/programs/tune_runs.hpp"
#include "support/refusal.hpp"
#include "tools/measure/time_budget.hpp"
#include "tools/storage/storage_model.hpp"
#include "tools/tune/report.hpp"
#include "tools/tune/sample.hpp"

namespace h5feed::test {
namespace {

using cli::Trial;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr cli::RowShape kData = {.rows = 100'000, .row_bytes = 12'288};
// 10 µs and 1e-10 s a byte, 20 µs and 2e-10 s a byte.
const cli::MachineCosts kMachine = {.serve_s = 2e-6,
                                    .plain = {{{0, 10e-6}, {1e6, 110e-6}}},
                                    .coded = {{{0, 20e-6}, {1e6, 220e-6}}},
                                    .cpus = 4};

cli::LoaderUse use_of(const char* shuffle, std::uint64_t cache_bytes, std::int64_t workers = 0) {
  return {.batch_size = 256, .shuffle = Shuffle(shuffle), .cache_bytes = cache_bytes, .num_workers = workers};
}

TEST(TuneModel, adds_up_what_an_epoch_takes) {
  const cli::CandidateCosts costs = {.decode_s = 1e-3, .encode_s = 0, .stored_share = 0.5};
  const auto one = predict(kData, {100, "gzip:1"}, costs, use_of("sequential", kGiB), kMachine);
  // 1,000 chunks of 1 ms, 20 µs and 1,228,800 bytes; 100,000 samples of 2 µs.
  EXPECT_DOUBLE_EQ(one.samples_per_s, 1e5 / (1000 * (1e-3 + 20e-6 + 1'228'800 * 2e-10) + 0.2));
  const auto plain = predict(kData, {100, "none"}, costs, use_of("sequential", kGiB), kMachine);
  EXPECT_DOUBLE_EQ(plain.samples_per_s, 1e5 / (1000 * (10e-6 + 1'228'800 * 1e-10) + 0.2));
  cli::MachineCosts slow_start = kMachine;
  slow_start.start_s = 0.5;
  EXPECT_DOUBLE_EQ(
      1e5 / predict(kData, {100, "none"}, costs, use_of("sequential", kGiB), slow_start).samples_per_s,
      0.5 + 1e5 / plain.samples_per_s);
  EXPECT_EQ(one.decodes_per_chunk, 1);
  EXPECT_EQ(one.decoded_bytes, 1e5 * 12'288);
  const auto four = predict(kData, {100, "gzip:1"}, costs, use_of("sequential", kGiB, 4), kMachine);
  const auto eight = predict(kData, {100, "gzip:1"}, costs, use_of("sequential", kGiB, 8), kMachine);
  EXPECT_GT(four.samples_per_s, 2 * one.samples_per_s);
  EXPECT_EQ(eight.samples_per_s, four.samples_per_s) << "more workers than cores are of no use";
}

TEST(TuneModel, draws_lines_between_the_sizes_that_were_measured) {
  const cli::MachineCosts::PerChunk costs = {{{1000, 10}, {2000, 12}, {10'000, 100}}};
  EXPECT_DOUBLE_EQ(costs.seconds(1000), 10);
  EXPECT_DOUBLE_EQ(costs.seconds(1500), 11);
  EXPECT_DOUBLE_EQ(costs.seconds(2000), 12);
  EXPECT_DOUBLE_EQ(costs.seconds(6000), 56);
  EXPECT_DOUBLE_EQ(costs.seconds(10'000), 100);
  EXPECT_DOUBLE_EQ(costs.seconds(500), 9);
  EXPECT_DOUBLE_EQ(costs.seconds(12'000), 122);
  EXPECT_DOUBLE_EQ((cli::MachineCosts::PerChunk{{{1000, 10}}}.seconds(500)), 5) << "of one size, its share";
  EXPECT_DOUBLE_EQ((cli::MachineCosts::PerChunk{{{1000, 1}, {2000, 10}}}.seconds(100)), 0);
}

TEST(TuneModel, knows_that_a_full_shuffle_decodes_large_chunks_again) {
  const auto rate = [&](std::uint64_t rows, const char* shuffle) {
    const double decode_s = static_cast<double>(rows) * 1e-5;
    return predict(kData, {rows, "gzip:1"}, {.decode_s = decode_s}, use_of(shuffle, 64 * kMiB), kMachine);
  };
  EXPECT_GT(rate(100, "full").decodes_per_chunk, 10 * rate(1, "full").decodes_per_chunk);
  EXPECT_GT(rate(1, "full").samples_per_s, rate(100, "full").samples_per_s);
  EXPECT_GT(rate(100, "chunk:16").samples_per_s, rate(1, "chunk:16").samples_per_s);
  EXPECT_EQ(rate(100, "chunk:16").decodes_per_chunk, 1);
}

TEST(TuneModel, reads_rows_of_plain_data_straight_where_that_is_cheaper) {
  const cli::CandidateCosts costs = {.decode_s = 1e-4};
  EXPECT_TRUE(predict(kData, {100, "none"}, costs, use_of("full", 64 * kMiB), kMachine).reads_rows);
  EXPECT_FALSE(predict(kData, {100, "none"}, costs, use_of("sequential", 64 * kMiB), kMachine).reads_rows);
  EXPECT_FALSE(predict(kData, {100, "lz4"}, costs, use_of("full", 64 * kMiB), kMachine).reads_rows);
}

Trial trial(std::uint64_t rows, double rate, double size, double measured = 0) {
  Trial one{.candidate = {rows, "gzip:1"}, .predicted = {.samples_per_s = rate}};
  one.size_bytes = size;
  one.sample_predicted = rate;
  one.sample_measured = measured;
  return one;
}

TEST(TuneModel, ranks_by_speed_marks_the_pareto_front_and_prefers_the_small_of_the_fast) {
  std::vector<Trial> trials = {trial(1, 50, 10), trial(2, 100, 100), trial(3, 97, 60), trial(4, 90, 70),
                               trial(5, 98, 120)};
  rank(trials);
  std::vector<std::uint64_t> order, pareto;
  for (const Trial& one : trials) {
    order.push_back(one.candidate.chunk_rows);
    if (one.pareto) pareto.push_back(one.candidate.chunk_rows);
  }
  EXPECT_THAT(order, ElementsAre(2, 5, 3, 4, 1));
  EXPECT_THAT(pareto, ElementsAre(2, 3, 1));
  EXPECT_EQ(cli::recommended(trials).candidate.chunk_rows, 3U);
}

TEST(TuneModel, recommends_no_filter_that_saves_next_to_nothing) {
  std::vector<Trial> trials = {trial(1, 130, 99), trial(1, 100, 100), trial(2, 120, 95), trial(2, 90, 40)};
  trials[1].candidate.filter = "none";
  rank(trials);
  EXPECT_EQ(cli::recommended(trials).size_bytes, 95) << "nothing is known of chunks of 2 without a filter";
  EXPECT_EQ(cli::fastest(trials).size_bytes, 95);
  trials.push_back(trial(2, 80, 100));
  trials.back().candidate.filter = "none";
  rank(trials);
  EXPECT_EQ(cli::recommended(trials).size_bytes, 100);
  EXPECT_EQ(cli::recommended(trials).candidate.chunk_rows, 1U);
}

TEST(TuneModel, believes_measurements_over_predictions) {
  std::vector<Trial> trials = {trial(1, 100, 10, 50), trial(2, 80, 10, 80), trial(3, 500, 10)};
  rank(trials);
  EXPECT_EQ(trials[1].samples_per_s(), 80);
  EXPECT_EQ(trials[2].samples_per_s(), 50);
  EXPECT_EQ(cli::recommended(trials).candidate.chunk_rows, 2U);
}

TEST(TuneModel, corrects_predictions_by_what_was_measured_before) {
  std::vector<Trial> trials = {trial(100, 100, 10, 50), trial(200, 100, 10), trial(100, 100, 10),
                               trial(100, 100, 10)};
  trials[2].candidate.filter = "lz4";
  trials[3].candidate.filter = "none";
  const auto shown = [&](std::size_t i) { return cli::shown_correction(trials, trials[i].candidate); };
  EXPECT_LT(shown(0), shown(1)) << "like chunks count most";
  EXPECT_LT(shown(1), shown(2)) << "and the same filter";
  EXPECT_LT(shown(2), shown(3)) << "and what decodes as well";
  EXPECT_LT(shown(3), 1);
  EXPECT_GT(shown(0), 0.5) << "the model keeps its weight";
  EXPECT_EQ(cli::shown_correction({}, trials[0].candidate), 1);
  // Corrected twice is corrected once, and what a corrected trial shows is still about the model.
  correct(trials[1], trials);
  correct(trials[1], trials);
  EXPECT_DOUBLE_EQ(trials[1].sample_predicted, 100 * trials[1].correction);
  EXPECT_DOUBLE_EQ(trials[1].predicted.samples_per_s, 100 * trials[1].correction);
  const double before = shown(1);
  trials[1].sample_measured = 100 * before;
  EXPECT_NEAR(shown(1), before, 0.1);
  EXPECT_LT(shown(1), before + 1e-9) << "two say so";
}

TEST(TuneModel, tries_round_sizes_from_small_to_large) {
  EXPECT_THAT(cli::chunk_rows_to_try(kData, 6), ElementsAre(1, 5, 20, 100, 500));
  EXPECT_THAT(cli::chunk_rows_to_try({.rows = 10, .row_bytes = 64 * kMiB}, 6), ElementsAre(1));
  EXPECT_THAT(cli::chunk_rows_to_try({.rows = 1, .row_bytes = 100}, 6), ElementsAre(1));
  EXPECT_THAT(cli::chunk_rows_to_try({.rows = 90, .row_bytes = 8}, 6), ElementsAre(20));
  for (const std::uint64_t row_bytes : {1U, 8U, 64U, 784U, 5462U}) {
    for (std::uint64_t rows = 1; rows < 20'000; ++rows)
      ASSERT_FALSE(cli::chunk_rows_to_try({rows, row_bytes}, 6).empty()) << rows << " of " << row_bytes;
  }
}

TEST(Tune, takes_data_of_few_rows) {
  const TempDir dir;
  for (const char* rows : {"2", "9", "90"}) {
    ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", rows, "--shape", "3,8,8", "--force"})
                  .exit_code,
              0);
    const ProgramResult result = run_program(dir.path(), {"tune", "a.h5", "--time-budget", "2s"});
    EXPECT_EQ(result.exit_code, 0) << rows << ": " << result.err;
  }
}

TEST(TuneSample, holds_whole_rows_spread_over_the_dataset) {
  const TempDir dir;
  constexpr std::uint64_t kRows = 1000;
  const auto bytes = patterned_bytes(kRows * 30);
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .shape = {kRows, 5, 6}, .chunk = {7, 2, 4}});
    file.write("x", bytes);
  }
  const auto file = H5File::open(dir / "a.h5");
  const auto reader = open_chunk_reader(file, file->describe("x"));
  const auto far = std::chrono::steady_clock::now() + std::chrono::hours(1);
  const cli::RowSample all = cli::sample_rows(*reader, kRows, far);
  EXPECT_EQ(all.rows(), kRows);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), all.values.data()));
  const cli::RowSample some = cli::sample_rows(*reader, 80, far);
  ASSERT_EQ(some.rows(), 80U);
  std::uint64_t last = 0;
  for (std::uint64_t row = 0; row < 80; ++row) {
    const auto* const values = some.values.data() + row * 30;
    std::uint64_t place = last;
    while (place < kRows && !std::equal(values, values + 30, bytes.data() + place * 30)) ++place;
    ASSERT_LT(place, kRows) << "row " << row << " is no row of the dataset, or out of order";
    last = place;
  }
  EXPECT_GT(last, kRows / 2);
  const cli::RowSample hurried =
      cli::sample_rows(*reader, 80, std::chrono::steady_clock::now() - std::chrono::hours(1));
  EXPECT_GE(hurried.rows(), 1U);
  EXPECT_LT(hurried.rows(), 80U);
}

// Returns what tune prints for h5py as the cache of chunks of 100 rows, of 10 there are.
std::string h5py_cache(const char* shuffle, std::uint64_t cache_bytes,
                       std::vector<std::int64_t> window = {}) {
  cli::TuneResult result{.use = use_of(shuffle, cache_bytes)};
  result.info.shape = {1000, 10};
  result.info.dtype = DType::u8;
  result.use.batch_size = 50;
  result.use.window = std::move(window);
  result.trials = {trial(100, 1, 1)};
  const std::string lines = cli::tune_json(result).at("recommended").at("h5py");
  return lines.substr(lines.find("rdcc_nbytes="));
}

TEST(TuneReport, gives_h5py_a_cache_of_as_many_chunks_as_the_order_needs_at_a_time) {
  EXPECT_EQ(h5py_cache("sequential", kMiB), "rdcc_nbytes=1000, rdcc_nslots=10007)  # 1 chunk");
  EXPECT_EQ(h5py_cache("chunk:4", kMiB), "rdcc_nbytes=4000, rdcc_nslots=10007)  # 4 chunks");
  EXPECT_EQ(h5py_cache("chunk:16", kMiB), "rdcc_nbytes=10000, rdcc_nslots=10007)  # 10 chunks");
  EXPECT_EQ(h5py_cache("full", kMiB), "rdcc_nbytes=10000, rdcc_nslots=10007)  # 10 chunks");
  EXPECT_EQ(h5py_cache("full", 3500), "rdcc_nbytes=3000, rdcc_nslots=10007)  # 3 chunks");
  EXPECT_EQ(h5py_cache("full", 0), "rdcc_nbytes=1000, rdcc_nslots=10007)  # 1 chunk");
  // Those from the first row of a window to its last, and those of the next batch.
  EXPECT_EQ(h5py_cache("sequential", kMiB, {-100, 0}), "rdcc_nbytes=5000, rdcc_nslots=10007)  # 5 chunks");
}

TEST(Tune, recommends_and_says_how_in_every_format) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "300", "--shape", "3,16,16"}).exit_code,
            0);
  const ProgramResult result =
      tune_with_enough_time(dir.path(), {"a.h5", "--chunks", "10,50", "--filters", "none,gzip:1,lz4",
                                         "--scratch", ".", "--json", "--export-csv", "t.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("tuning a.h5:/images (300×3×16×16 u8, 225 KiB decoded) for batches of 256, "
                        "shuffle=chunk:16, cache "));
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json.at("rows").size(), 6U);
  for (const Json& row : json.at("rows")) {
    EXPECT_GT(row.at("samples_per_s"), 0);
    EXPECT_EQ(row.at("needs_hdf5plugin"), row.at("filter") == "lz4");
  }
  const std::string command = json.at("recommended").at("command");
  EXPECT_THAT(command, ::testing::StartsWith("h5feed repack a.h5 NEW.h5 --dataset /images --chunk "));
  const std::string h5py = json.at("recommended").at("h5py");
  EXPECT_THAT(h5py, HasSubstr(", 3, 16, 16)"));
  const bool small = json.at("recommended").at("chunk_rows") == 10;
  EXPECT_THAT(h5py, ::testing::EndsWith(small ? "# 16 chunks" : "# 6 chunks"))
      << "at most all of 300 samples";
  EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5", "t.csv")) << "no temporary file is left";
}

TEST(Tune, tries_chunks_that_windows_decode_about_once) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "3000", "--shape", "1,8,16"}).exit_code,
            0);
  const auto tune = [&](const char* cache) {
    return tune_with_enough_time(
        dir.path(), {"a.h5", "--window", "-2,-1,0,1", "--shuffle", "chunk:2", "--cache-bytes", cache,
                     "--batch-size", "8", "--filters", "none,gzip:1", "--scratch", ".", "--json"});
  };
  const ProgramResult result = tune("256KiB");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("for batches of 8 windows of 4 rows, shuffle=chunk:2"));
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("window"), (std::vector<int>{-2, -1, 0, 1}));
  for (const Json& row : json.at("rows")) {
    EXPECT_LE(row.at("decodes_per_chunk").get<double>(), 1.2);
    EXPECT_GT(row.at("samples_per_s"), 0);
  }
  const ProgramResult refused = tune("4KiB");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(
      refused.err,
      HasSubstr("--window: no chunks of /images are decoded 1.2 times at most with shuffle=chunk:2 and a "
                "cache of 4 KiB; use "));
}

TEST(Tune, leaves_the_time_budget_to_large_sparse_files) {
  const TempDir dir;
  // 300 GB of images of which nothing was ever written.
  H5TestFile(dir / "a.h5")
      .create({.path = "x", .shape = {2'000'000, 3, 224, 224}, .chunk = {100, 3, 224, 224}});
  // With a few candidates: no time is lost to reading 300 GB of fill values, or the test would not end.
  const ProgramResult result = tune_with_enough_time(
      dir.path(), {"a.h5", "--chunks", "1,5", "--filters", "none", "--scratch", ".", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out).at("shape")[0], 2'000'000);
}

TEST(Tune, refuses_a_time_that_is_too_short_and_says_which_suffices) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "300", "--shape", "3,16,16"}).exit_code,
            0);
  const ProgramResult result =
      run_program(dir.path(), {"tune", "a.h5", "--time-budget", "0.1ms", "--scratch", "."});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              ::testing::MatchesRegex("--time-budget 0.0001s is too short for this file on this machine; "
                                      "give at least [0-9.]+s\n"));
  EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5"));
}

TEST(TimeBudget, asks_for_more_than_was_given_in_round_figures) {
  const cli::TimeBudget over(std::chrono::nanoseconds(1));
  EXPECT_EQ(refusal_of<OptionError>([&] { over.refuse(0.01); }),
            "--time-budget 1e-09s is too short for this file on this machine; give at least 0.1s");
  EXPECT_THAT(refusal_of<OptionError>([&] { over.refuse(7.2); }), ::testing::EndsWith("give at least 8s"));
  EXPECT_THROW(over.require_left(0.5), OptionError);
  const cli::TimeBudget ample(std::chrono::hours(1));
  EXPECT_NO_THROW(ample.require_left(0.5));
  EXPECT_THAT(refusal_of<OptionError>([&] { ample.refuse(1); }), ::testing::EndsWith("give at least 3960s"))
      << "never less than what was too short";
}

TEST(Tune, names_the_option_where_the_memory_does_not_suffice) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "300", "--shape", "3,16,16"}).exit_code,
            0);
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"tune", "a.h5", "--scratch", "."});
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5"));
    return result.err;
  };
  EXPECT_THAT(error({"--cache-bytes", "1000TiB"}),
              ::testing::MatchesRegex(
                  "--memory-budget-bytes [^\n]* cannot hold --batch-size [^\n]* \\+ "
                  "--cache-bytes 1000 TiB[^\n]*; use --cache-bytes ≤ [0-9]+MiB or at least [^\n]*\n"));
  EXPECT_THAT(error({"--memory-budget-bytes", "1KiB"}),
              ::testing::StartsWith("--memory-budget-bytes 1 KiB cannot hold"));
}

TEST(Tune, explains_wrong_usage) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "30", "--shape", "3,8,8"}).exit_code,
            0);
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"tune", "a.h5"});
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--filters", "zip"}), ::testing::StartsWith("filter \"zip\": accepted are "));
  EXPECT_THAT(error({"--shuffle", "some"}), HasSubstr("some"));
  EXPECT_THAT(error({"--chunks", "0"}), HasSubstr("--chunks \"0\": give a whole number from 1"));
  EXPECT_THAT(error({"--num-workers", "100000"}), HasSubstr("--num-workers 100000: too many threads for this "
                                                            "machine ("));
  EXPECT_THAT(error({"--chunks", "50"}),
              HasSubstr("--chunks 50: the sample has 30 rows; give smaller chunks"));
}

TEST(Completion, lists_every_command_and_its_options_for_both_shells) {
  const TempDir dir;
  for (const std::string shell : {"bash", "zsh"}) {
    const ProgramResult result = run_program(dir.path(), {"completion", shell});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const std::string word :
         {"info", "pack", "repack", "tune", "bench", "--shuffle-rows", "--time-budget"}) {
      EXPECT_THAT(result.out, HasSubstr(word));
    }
  }
  EXPECT_EQ(run_program(dir.path(), {"completion", "fish"}).err, "completion \"fish\": give bash or zsh\n");
  const ProgramResult script = run_program(dir.path(), {"completion", "bash"});
  const auto text = script.out +
                    "COMP_WORDS=(h5feed repack --shuffle-); COMP_CWORD=2; _h5feed; echo \"${COMPREPLY[@]}\"; "
                    "COMP_WORDS=(h5feed tu); COMP_CWORD=1; _h5feed; echo \"${COMPREPLY[@]}\"";
  replace_file(dir / "try.sh", std::as_bytes(std::span(text)));
  FILE* const pipe = popen(("bash " + (dir / "try.sh").string()).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said(200, '\0');
  said.resize(fread(said.data(), 1, said.size(), pipe));
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(said, "--shuffle-rows\ntune\n");
}

}  // namespace
}  // namespace h5feed::test
