// SPDX-License-Identifier: Apache-2.0
// The ladder of benchmarks/ladder on a small file: every rung trains on the same samples, and what does not
// apply on a CPU is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files/file_text.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/processes.hpp"

namespace h5feed::test {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

class Ladder : public ::testing::Test {
 protected:
  // Runs a program and returns its output, which may have a log before its last lines.
  std::string run(const std::vector<std::string>& words, int exit_code = 0) const {
    Process process(directory_.path(), words, {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(process.wait(), exit_code) << words.front() << "\n" << process.output();
    return process.output();
  }

  std::string climb(const std::vector<std::string>& more, int exit_code = 0) const {
    std::vector<std::string> words = {H5FEED_PYTHON,   H5FEED_SOURCE_DIR "/benchmarks/ladder/run.py",
                                      "--build",       H5FEED_BINARY_DIR,
                                      "--folder",      ".",
                                      "--samples",     "200",
                                      "--shape",       "3,16,16",
                                      "--chunk",       "16",
                                      "--epochs",      "2",
                                      "--order",       "chunk:4",
                                      "--batch-size",  "32",
                                      "--batch-sizes", "16,64",
                                      "--device",      "cpu",
                                      "--json",        "result.json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, exit_code);
  }

  Json result() const { return Json::parse(text_of(directory_ / "result.json")); }

  const TempDir directory_;
};

TEST_F(Ladder, climbs_every_rung_that_a_cpu_has_writes_tables_and_a_picture_and_goes_on_with_earlier_rounds) {
  std::ofstream(directory_ / "page.md") << "before\n<!-- ladder -->\n<!-- end of ladder -->\nafter\n";
  climb({"--rounds", "1", "--learning-rate", "0.02", "--docs", "page.md", "--picture", "ladder.svg"});
  const Json found = result();
  const std::string page = text_of(directory_ / "page.md");
  const std::string drawn = text_of(directory_ / "ladder.svg");
  ASSERT_THAT(found["rungs"], SizeIs(8));
  const Json& naive = found["rungs"][0]["runs"][0];
  for (const Json& rung : found["rungs"]) {
    EXPECT_THAT(page, HasSubstr(rung["change"]));
    EXPECT_THAT(drawn, HasSubstr(rung["change"]));
    if (rung["rung"] == "pinned") {
      EXPECT_THAT(rung["not_run"], HasSubstr("needs a GPU"));
      EXPECT_THAT(page, HasSubstr(rung["not_run"]));
      continue;
    }
    ASSERT_THAT(rung["runs"], SizeIs(1)) << rung;
    const Json& once = rung["runs"][0];
    EXPECT_EQ(once["fresh_samples"], 400);
    EXPECT_EQ(once["samples"], rung["rung"] == "echo" ? 800 : 400);
    EXPECT_THAT(once["check_sum"].get<double>(), DoubleNear(naive["check_sum"], 1e-2));
    EXPECT_THAT(once["first_batch_seconds"], SizeIs(2));
    EXPECT_EQ(rung["samples_per_s"]["median"], once["samples_per_s"]);
    EXPECT_LE(once["wait_share"], 1);
    EXPECT_GE(once["host_peak_bytes"], once["host_idle_bytes"]);
    EXPECT_TRUE(once["gpu_busy"].is_null() && once["device_peak_bytes"].is_null()) << "there is no GPU";
  }
  EXPECT_THAT(page, AllOf(HasSubstr("before\n"), HasSubstr("](ladder.svg)"), EndsWith("after\n")));
  EXPECT_THAT(drawn, HasSubstr("prefers-color-scheme: dark"));

  climb({"--rounds", "2", "--learning-rate", "0.02"});
  const Json both = result();
  EXPECT_EQ(both["rounds"], 2);
  ASSERT_THAT(both["batch_sizes"], SizeIs(2));
  const auto once = [&](std::size_t i) { return both["batch_sizes"][i]["runs"][1]; };
  EXPECT_DOUBLE_EQ(once(0)["learning_rate"], 0.02 * 16 / 64);
  EXPECT_DOUBLE_EQ(once(1)["learning_rate"], 0.02);
  EXPECT_EQ(once(0)["steps"], 2 * 13);
  EXPECT_EQ(once(1)["steps"], 2 * 4);
  const std::string refusal = climb({"--rounds", "3", "--learning-rate", "0.04"}, 1);
  EXPECT_THAT(refusal, HasSubstr("result.json was measured with another settings"));
}

TEST_F(Ladder, refuses_a_file_with_too_few_chunks_before_it_measures) {
  const std::string refusal = climb({"--rounds", "1", "--order", "chunk:14"}, 1);
  EXPECT_THAT(refusal, HasSubstr("run.py: ladder_rung: rung echo: "));
  EXPECT_THAT(refusal, HasSubstr("chunk:14"));
  EXPECT_THAT(refusal, Not(HasSubstr("naive")));
}

TEST_F(Ladder, a_rung_names_what_is_wrong_in_one_line) {
  const std::string program = H5FEED_BINARY_DIR "/benchmarks/ladder/ladder_rung";
  EXPECT_EQ(
      run({program, "none.h5", "--rung", "roof"}, 2),
      "ladder_rung: --rung roof: use one of naive, workers, late, h5feed, chunks, pinned, gapless, echo\n");
  const std::string missing = run({program, "none.h5"}, 1);
  EXPECT_THAT(missing, AllOf(HasSubstr("none.h5"), Not(HasSubstr("terminate"))));
  EXPECT_THAT(lines_with(missing, "ladder_rung: "), SizeIs(1));
}

}  // namespace
}  // namespace h5feed::test
