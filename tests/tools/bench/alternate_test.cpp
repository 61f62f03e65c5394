// SPDX-License-Identifier: Apache-2.0
// h5feed bench --alternate, --compare, --sweep and --config: the statistics on known numbers, and the
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/programs/bench_runs.hpp"
#include "tools/bench/alternate.hpp"
#include "tools/bench/compare.hpp"
#include "tools/measure/ratio_test.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;

// Rates of `pairs` repetitions with the drift, the noise and the interruptions of a machine.
struct Rates {
  std::vector<double> first, second;
};
Rates noisy_rates(std::size_t pairs, double ratio, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.03);
  std::uniform_real_distribution<double> any(0, 1);
  Rates rates;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double drift = 1 + 0.2 * std::sin(static_cast<double>(i) / 9);
    const auto rate = [&] { return 5000 * drift * std::exp(noise(random)) * (any(random) < 0.05 ? 0.5 : 1); };
    rates.first.push_back(rate());
    rates.second.push_back(ratio * rate());
  }
  return rates;
}

TEST(PairedRatio, has_the_exact_probabilities_of_small_series) {
  const cli::RatioEstimate all_less =
      cli::paired_ratio({1, 1, 1, 1, 1, 1}, {0.9, 0.8, 0.7, 0.6, 0.5, 0.4}, 0.05);
  EXPECT_DOUBLE_EQ(all_less.p, 2.0 / 64) << "all six signs are equal";
  EXPECT_NEAR(all_less.low, 0.4, 1e-12);
  EXPECT_NEAR(all_less.high, 0.9, 1e-12);
  EXPECT_GT(all_less.ratio, 0.5);
  EXPECT_LT(all_less.ratio, 0.8);
  // The signed ranks +1, +2, +3, -4: sums of at most 4 have 7 of 16 signs on one side.
  const cli::RatioEstimate mixed =
      cli::paired_ratio({1, 1, 1, 1}, {std::exp(0.1), std::exp(0.2), std::exp(0.3), std::exp(-0.4)}, 0.05);
  EXPECT_DOUBLE_EQ(mixed.p, 14.0 / 16);
  EXPECT_TRUE(std::isinf(mixed.high)) << "four pairs reach no error probability of 5 %";
  const cli::RatioEstimate equal = cli::paired_ratio({1, 2, 3}, {1, 2, 3}, 0.05);
  EXPECT_EQ(equal.ratio, 1);
  EXPECT_EQ(equal.p, 1);
}

TEST(PairedRatio, tells_five_percent_from_none_in_noise) {
  int found = 0, false_alarms = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Rates slower = noisy_rates(60, 0.95, seed), equal = noisy_rates(60, 1, 1000 + seed);
    const double alpha = cli::kAlternateAlpha / 2;
    found += cli::paired_ratio(slower.first, slower.second, alpha).p < alpha ? 1 : 0;
    false_alarms += cli::paired_ratio(equal.first, equal.second, alpha).p < alpha ? 1 : 0;
  }
  EXPECT_GE(found, 19);
  EXPECT_LE(false_alarms, 1);
}

TEST(PairedRatio, holds_the_true_ratio_in_its_interval) {
  int inside = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Rates rates = noisy_rates(30, 0.9, seed);
    const cli::RatioEstimate found = cli::paired_ratio(rates.first, rates.second, 0.05);
    inside += found.low <= 0.9 && 0.9 <= found.high ? 1 : 0;
  }
  EXPECT_GE(inside, 88);
  EXPECT_LE(inside, 100);
}

TEST(UnpairedRatio, agrees_with_welch) {
  // Logarithms 0, 0.1, 0.2 and 0.3, 0.4, 0.5: standard error 0.1 · √(2/3), 4 degrees of freedom.
  const std::vector<double> first = {1, std::exp(0.1), std::exp(0.2)};
  const std::vector<double> second = {std::exp(0.3), std::exp(0.4), std::exp(0.5)};
  const cli::RatioEstimate found = cli::unpaired_ratio(first, second);
  EXPECT_NEAR(std::log(found.ratio), 0.3, 1e-12);
  EXPECT_NEAR(std::log(found.low), 0.3 - 2.776 * 0.1 * std::sqrt(2.0 / 3), 1e-3);
  EXPECT_NEAR(std::log(found.high), 0.3 + 2.776 * 0.1 * std::sqrt(2.0 / 3), 1e-3);
  EXPECT_TRUE(std::isinf(cli::unpaired_ratio({1}, {2}).high));
}

// A program that answers as bench does, with rates of a known sequence.
std::string fake_program(const TempDir& dir, const std::string& name, double rate) {
  const std::string path = (dir / name).string();
  std::ofstream(path) << "#!/bin/sh\n"
                      << "[ \"$2\" = --help ] && { echo --rate-only; exit 0; }\n"
                      << "n=$(cat " << path << ".count 2>/dev/null || echo 0); echo $((n + 1)) > " << path
                      << ".count\n"
                      << "noise=$(( (n * 7919 + " << name.size() << " * 104729) % 101 ))\n"
                      << "echo '{\"version\": \"1\", \"commit\": \"" << name
                      << "\", \"rows\": [{\"samples_per_s\": " << static_cast<int>(rate)
                      << "'$((noise + 100))', \"peak_rss_bytes\": 1, \"cpu_s_per_1k_samples\": 0.5}]}'\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(BenchAlternate, finds_the_slower_program_and_fails_above_the_loss) {
  const TempDir dir;
  write_samples(dir);
  const std::string old_one = fake_program(dir, "old", 100), new_one = fake_program(dir, "new1", 93);
  const auto run = [&](const std::string& a, const std::string& b) {
    return run_program(dir.path(), {"bench", "a.h5", "--alternate", a, b, "--max-loss", "5%", "--json",
                                    "--time-budget", "1s"});
  };
  const ProgramResult slower = run(old_one, new_one);
  EXPECT_EQ(slower.exit_code, 1) << slower.err;
  const Json json = Json::parse(slower.out);
  EXPECT_TRUE(json.at("significant"));
  EXPECT_TRUE(json.at("lost"));
  EXPECT_TRUE(json.at("rate").at("significant"));
  EXPECT_FALSE(json.at("cpu").at("significant"));
  EXPECT_NEAR(json.at("rate").at("ratio").get<double>(), 0.93, 0.01);
  EXPECT_EQ(json.at("sides")[1].at("commit"), "new1");
  EXPECT_GE(json.at("pairs"), 10);
  const ProgramResult faster = run(new_one, old_one);
  EXPECT_EQ(faster.exit_code, 0);
  EXPECT_FALSE(Json::parse(faster.out).at("lost"));
}

TEST(BenchAlternate, runs_settings_of_this_program) {
  const TempDir dir;
  write_samples(dir);
  const ProgramResult result =
      run_program(dir.path(), {"bench", "a.h5", "--alternate", "num_workers=1 io_depth=1", "batch_size=32",
                               "--num-workers", "2", "--time-budget", "100ms"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("A: num_workers=1 io_depth=1"));
  EXPECT_THAT(result.out, HasSubstr("10 pairs)"));
}

TEST(BenchAlternate, refuses_sides_that_cannot_work) {
  const TempDir dir;
  write_samples(dir);
  const auto err_of = [&](const std::vector<std::string>& more, int code) {
    std::vector<std::string> arguments = {"bench", "a.h5", "--alternate"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, code);
    return result.err;
  };
  EXPECT_THAT(err_of({"batchsize=2", "batch_size=4"}, 2), HasSubstr("no option \"batchsize\""));
  EXPECT_THAT(err_of({"./none", "batch_size=4"}, 1), HasSubstr("./none cannot be run"));
  EXPECT_THAT(err_of({"a b", "batch_size=4"}, 2), HasSubstr("give one program"));
  EXPECT_THAT(err_of({" ", "batch_size=4"}, 2), HasSubstr("give a program"));
  EXPECT_THAT(err_of({"batch_size=2", "batch_size=4", "--sweep", "echo=1,2"}, 2),
              HasSubstr("--alternate and --sweep exclude each other"));
}

TEST(BenchCompare, reports_an_interval_and_what_changed) {
  const auto result = [](std::vector<double> repetitions, const char* cpu, double elsewhere) {
    return cli::Json{{"file", "a.h5"},
                     {"version", "1"},
                     {"commit", "c"},
                     {"machine", {{"cpu", cpu}}},
                     {"settings", {{"shuffle", "full"}}},
                     {"rows",
                      {{{"num_workers", 2},
                        {"page_cache", "warm"},
                        {"batch_size", 64},
                        {"busy_elsewhere", elsewhere},
                        {"samples_per_s", repetitions[1]},
                        {"repetitions", repetitions}}}}};
  };
  const cli::Json comparison =
      cli::compare_results(result({990, 1000, 1010}, "old", 0.0), result({495, 500, 505}, "new", 0.5));
  ASSERT_EQ(comparison.at("rows").size(), 1U);
  EXPECT_NEAR(comparison["rows"][0].at("ratio").get<double>(), 0.5, 1e-3);
  EXPECT_GT(comparison["rows"][0].at("ratio_low"), 0.48);
  EXPECT_LT(comparison["rows"][0].at("ratio_high"), 0.52);
  const std::string text = cli::comparison_text(comparison, "old.json");
  EXPECT_THAT(text, HasSubstr("num_workers=2: -50.0 % against old.json (95 % interval"));
  EXPECT_THAT(text, HasSubstr("changed since: machine.cpu: \"old\" to \"new\"\n"));
  EXPECT_THAT(text, HasSubstr("CPUs used by other processes: 0.0 to 0.5\n"));
}

TEST(BenchCompare, takes_an_export_and_refuses_other_files) {
  const TempDir dir;
  write_samples(dir);
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"bench",  "a.h5", "--num-workers", "1",
                                          "--runs", "2",    "--time-budget", "100ms"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(dir.path(), arguments);
  };
  ASSERT_EQ(run({"--export-json", "old.json"}).exit_code, 0);
  EXPECT_THAT(run({"--compare", "old.json"}).out, HasSubstr("against old.json (95 % interval"));
  EXPECT_EQ(run({"--compare", "none.json"}).exit_code, 1);
  const ProgramResult other = run({"--compare", "a.h5"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("not a result of bench"));
}

// A file may come from anywhere; it is refused before anything is measured.
TEST(BenchCompare, refuses_results_with_members_of_other_types) {
  const TempDir dir;
  write_samples(dir);
  const Json row = {{"num_workers", 1}, {"samples_per_s", 5}, {"repetitions", {4, 5, 6}}};
  const auto with = [&](const char* key, const Json& value) {
    Json other = row;
    other[key] = value;
    return Json{{"rows", {other}}};
  };
  for (const Json& result :
       {with("repetitions", "x"), with("repetitions", {"x"}), with("repetitions", {1, -1}),
        with("samples_per_s", "x"), with("samples_per_s", 0), Json{{"rows", {row}}, {"machine", "x"}},
        Json{{"rows", {row}}, {"settings", {1}}}, Json{{"rows", {1}}}, Json{{"rows", {{"a", row}}}}}) {
    std::ofstream(dir / "x.json") << result.dump();
    const ProgramResult refused = run_program(dir.path(), {"bench", "a.h5", "--compare", "x.json"});
    EXPECT_EQ(refused.exit_code, 2) << result;
    EXPECT_EQ(refused.err, "--compare x.json: not a result of bench; give a file of bench --export-json\n");
    EXPECT_EQ(refused.out, "");
  }
}

// The default budget follows the free memory, and would differ in every comparison.
TEST(BenchCompare, leaves_out_sizes_that_follow_the_free_memory) {
  const auto changed = [](std::uint64_t before, std::uint64_t after) {
    const auto result = [](std::uint64_t bytes) {
      return cli::Json{{"settings", {{"memory_budget_bytes", bytes}}}, {"rows", cli::Json::array()}};
    };
    return cli::compare_results(result(before), result(after)).at("changes").size();
  };
  EXPECT_EQ(changed(11'056'418'816, 11'036'100'608), 0U);
  EXPECT_EQ(changed(11'056'418'816, 1 << 30), 1U);
}

TEST(BenchSweep, measures_all_combinations) {
  const TempDir dir;
  write_samples(dir);
  const Json json = bench_json(dir, {"--num-workers", "1", "--runs", "1", "--sweep", "batch_size=32,64",
                                     "--sweep", "shuffle=chunk:2,full", "--target-rate", "1", "--rate-only"});
  ASSERT_EQ(json.at("rows").size(), 4U);
  EXPECT_EQ(json["rows"][1].at("swept"), (Json{{"batch_size", 32}, {"shuffle", "full"}}));
  EXPECT_EQ(json["rows"][2].at("batch_size"), 64);
  EXPECT_EQ(json["rows"][0].at("limit_bytes_per_s"), nullptr) << "--rate-only";
  EXPECT_TRUE(json.at("target_rate").at("row").is_number());
}

TEST(BenchConfig, is_written_by_info_and_read_by_bench) {
  const TempDir dir;
  write_samples(dir);
  ASSERT_EQ(run_program(dir.path(), {"info", "a.h5", "--write-config", "c.json"}).exit_code, 0);
  const ProgramResult result =
      run_program(dir.path(), {"bench", "--config", "c.json", "--batch-size", "32", "--set", "echo=2",
                               "--field", "again=labels", "--runs", "1", "--time-budget", "200ms", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json.at("rows").size(), 1U);
  EXPECT_EQ(json["rows"][0].at("num_workers"), "auto") << "from the configuration";
  EXPECT_EQ(json["rows"][0].at("batch_size"), 32) << "typed options override it";
  EXPECT_EQ(json.at("settings").at("echo"), (Json{{"factor", 2}}));
  EXPECT_EQ(json.at("settings").at("fields")[0].at("name"), "again");
  std::ofstream(dir / "bad.json") << R"({"loader": {"batchsize": 1}})";
  const ProgramResult bad = run_program(dir.path(), {"bench", "a.h5", "--config", "bad.json"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.json: loader has no option \"batchsize\"; it has batch_size, "));
  for (const std::string option : {"--set", "--sweep"}) {
    const ProgramResult unknown = run_program(dir.path(), {"bench", "a.h5", option, "batchsize=1"});
    EXPECT_EQ(unknown.exit_code, 2);
    EXPECT_THAT(
        unknown.err,
        testing::AllOf(HasSubstr(option + ": there is no option \"batchsize\" of a dataset or a loader"),
                       HasSubstr("stage_dir"), HasSubstr("batch_size")));
  }
}

}  // namespace
}  // namespace h5feed::test
