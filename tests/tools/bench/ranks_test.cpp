// SPDX-License-Identifier: Apache-2.0
// h5feed bench --world-size: processes that share the samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

class BenchRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program(dir_.path(),
                          {"generate", "a.h5", "--samples", "640", "--shape", "3,16,16", "--chunk", "16"})
                  .exit_code,
              0);
  }

  ProgramResult bench(std::vector<std::string> options) const {
    options.insert(options.begin(),
                   {"bench", "a.h5", "--time-budget", "100ms", "--runs", "1", "--warmup", "0"});
    return run_program(dir_.path(), options);
  }

  const TempDir dir_;
};

TEST_F(BenchRanks, adds_the_rates_of_processes_that_run_together) {
  const ProgramResult result =
      bench({"--world-size", "1,2", "--shard", "by_chunk", "--batch-size", "32", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json rows = Json::parse(result.out).at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("world_size"), 1);
  EXPECT_EQ(rows[0].at("speed_up"), 1.0);
  EXPECT_EQ(rows[0].at("efficiency"), 1.0);
  EXPECT_EQ(rows[1].at("world_size"), 2);
  EXPECT_EQ(rows[1].at("num_workers"), 1);
  const double speed_up = rows[1].at("speed_up");
  EXPECT_DOUBLE_EQ(speed_up,
                   rows[1].at("samples_per_s").get<double>() / rows[0].at("samples_per_s").get<double>());
  EXPECT_DOUBLE_EQ(rows[1].at("efficiency"), speed_up / 2);
  EXPECT_GT(rows[1].at("cpu_s_per_1k_samples"), 0);
}

TEST_F(BenchRanks, tells_how_often_the_processes_together_read_the_file) {
  const auto read_share = [&](const char* shard) {
    // Workers would read ahead for the next epoch, more or less of it.
    const ProgramResult result =
        bench({"--world-size", "2", "--num-workers", "0", "--shard", shard, "--batch-size", "32", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out).at("rows")[0].at("bytes_read_per_dataset_byte").get<double>();
  };
  EXPECT_NEAR(read_share("by_chunk"), 1, 0.05) << "each chunk by one process";
  EXPECT_NEAR(read_share("strided"), 2, 0.05) << "each chunk by both";
}

TEST_F(BenchRanks, prints_a_row_for_each_world_size) {
  const ProgramResult result = bench({"--world-size", "1,2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("world_size  num_workers    samples/s      data/s  speed-up  efficiency"));
  EXPECT_THAT(result.err, MatchesRegex("measuring a.h5: 2 rows of about [0-9.]+ s and the start of their "
                                       "processes; warm pages\n(.|\n)*"))
      << "before the first row";
}

TEST_F(BenchRanks, refuses_what_cannot_be_measured_before_the_first_row) {
  const auto refused = [&](const std::vector<std::string>& options) {
    const ProgramResult result = bench(options);
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(refused({"--world-size", "0"}), HasSubstr("--world-size takes numbers from 1 on"));
  EXPECT_THAT(refused({"--world-size", "2", "--shard", "halves"}), HasSubstr("--shard"));
  EXPECT_THAT(refused({"--world-size", "2", "--cold"}), HasSubstr("leave out --cold"));
  EXPECT_THAT(refused({"--world-size", "100", "--shard", "by_chunk"}),
              HasSubstr("cannot distribute 40 chunks over 100 ranks"));
  EXPECT_THAT(
      refused({"--world-size", "100000"}),
      MatchesRegex("--world-size 100000: too many processes for this machine [^\n]*; give at most [0-9]+\n"));
  EXPECT_THAT(refused({"--world-size", "2", "--num-workers", "1024"}),
              HasSubstr("too many threads for this machine"));
}

}  // namespace
}  // namespace h5feed::test
