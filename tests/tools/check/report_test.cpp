// SPDX-License-Identifier: Apache-2.0
// The table, the counts and the JSON of `check` say the same of a dataset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/check/report.hpp"

namespace h5feed::test {
namespace {

TEST(CheckReport, classifies_a_sample_of_one_reader_alike_in_table_and_json) {
  const cli::CheckResult part{.chunks = 10, .wanted = 1, .visited = 1};
  cli::CheckResult own = part;
  own.not_compared = "libhdf5 has no filter 32015 (zstd)";
  const std::vector<cli::CheckEntry> entries = {
      {.info = DatasetInfo{}, .chunks = 10, .fallback_reason = "external files", .result = part},
      {.info = DatasetInfo{}, .chunks = 10, .result = own},
      {.info = DatasetInfo{}, .chunks = 10, .result = part}};
  const auto json = cli::check_json("a.h5", entries, 0.1, 1);
  EXPECT_EQ(json.at("datasets_libhdf5_only"), 1);
  EXPECT_EQ(json.at("datasets_h5feed_only"), 1);
  EXPECT_EQ(json.at("datasets_partial"), 1);
  const std::vector<std::string> results = {"libhdf5 only, not compared", "h5feed only, not compared",
                                            "partial"};
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(cli::check_cells("a.h5", entries[i]), ::testing::Contains(results[i]));
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(json.at("datasets")[i].at("result"), results[i]);
}

}  // namespace
}  // namespace h5feed::test
