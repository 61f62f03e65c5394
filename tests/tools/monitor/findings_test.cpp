// SPDX-License-Identifier: Apache-2.0
// What `monitor` finds in recorded series: every planted fault, and nothing in healthy runs.
#include "tools/monitor/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/fakes/planted_runs.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::uint64_t kRuns = 20;

std::vector<std::string> names_of(const Diagnosis& diagnosis) {
  std::vector<std::string> names;
  for (const Finding& finding : diagnosis.findings) names.push_back(finding.name);
  return names;
}

TEST(Findings, are_none_in_healthy_runs) {
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    const Diagnosis diagnosis = diagnose(healthy_run(seed).record);
    EXPECT_THAT(names_of(diagnosis), IsEmpty()) << "seed " << seed << ": " << diagnosis.to_text();
    EXPECT_THAT(diagnosis.verdict, StartsWith("nothing found; the GPUs were busy "));
  }
}

class PlantedFault : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, is_named_first) {
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    PlantedRun run = healthy_run(seed);
    GetParam().plant(run);
    const Diagnosis diagnosis = diagnose(run.record);
    ASSERT_FALSE(diagnosis.findings.empty()) << "seed " << seed;
    EXPECT_EQ(diagnosis.findings.front().name, GetParam().name)
        << "seed " << seed << ": " << diagnosis.to_text();
    EXPECT_THAT(diagnosis.verdict, StartsWith(diagnosis.findings.front().what));
    for (const Finding& finding : diagnosis.findings) {
      EXPECT_FALSE(finding.advice.empty()) << finding.name;
      EXPECT_LE(finding.from_s, finding.to_s) << finding.name;
      EXPECT_LE(finding.to_s, run.record.points.back().time_s) << finding.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault, ::testing::ValuesIn(faults()),
                         [](const auto& fault) { return fault.param.name; });

TEST(Findings, need_ten_points) {
  PlantedRun run = healthy_run(1);
  run.record.points.resize(run.warm + kFewestPoints - 1);
  const Diagnosis diagnosis = diagnose(run.record);
  EXPECT_THAT(diagnosis.findings, IsEmpty());
  EXPECT_THAT(diagnosis.verdict,
              StartsWith("too short to judge: 9 readings while there was work, of 10 needed"));
  EXPECT_THAT(diagnose(Record()).verdict, StartsWith("too short to judge: 0 readings"));
}

TEST(Findings, name_what_changed_with_a_fall_of_use) {
  PlantedRun run = healthy_run(3);
  const std::size_t from = run.points() / 2;
  for (std::size_t i = from; i < run.points(); ++i) {
    run.scale_use(i, 0.5);
    run.record.points[i].page_cache_bytes = 1e9;
  }
  const Diagnosis diagnosis = diagnose(run.record);
  ASSERT_THAT(names_of(diagnosis), ElementsAre("fall_of_use"));
  EXPECT_THAT(diagnosis.verdict, HasSubstr("; with it page cache fell from "));
  EXPECT_NEAR(diagnosis.findings[0].from_s, static_cast<double>(from), 2);
}

TEST(Findings, take_the_advice_of_the_loader_against_starvation_with_and_without_a_gpu) {
  PlantedRun run = healthy_run(0);
  for (Point& point : run.record.points) {
    point.gpus.clear();
    point.loader_wait = 0.6;
  }
  run.record.gpus.clear();
  run.record.epochs = {{.end_s = 100, .bottleneck = "decode", .advice = {"4 workers more"}}};
  const Diagnosis diagnosis = diagnose(run.record);
  ASSERT_THAT(names_of(diagnosis), ElementsAre("starved_training"));
  EXPECT_EQ(diagnosis.verdict, "the training waited for batches 60 % of the time (bottleneck: decode)");
  EXPECT_THAT(diagnosis.findings[0].advice, ElementsAre("4 workers more"));
}

TEST(Record, keeps_means_and_reasons_of_throttling_when_it_is_thinned) {
  Record record{.interval_s = 2};
  for (int i = 0; i < 5; ++i) {
    record.points.push_back({.time_s = i * 2.0, .gpus = {{.busy = i / 10.0, .throttle_reasons = 1ULL << i}}});
  }
  record.points[1].cpu_busy = 0.5;
  record.thin(5);
  EXPECT_EQ(record.points.size(), 5U);
  record.thin(4);
  ASSERT_EQ(record.points.size(), 3U);
  EXPECT_EQ(record.interval_s, 4);
  EXPECT_EQ(record.points[0].time_s, 2);
  EXPECT_DOUBLE_EQ(*record.points[0].gpus[0].busy, 0.05);
  EXPECT_EQ(record.points[0].gpus[0].throttle_reasons, 3U);
  EXPECT_EQ(record.points[0].cpu_busy, 0.5) << "known in one of the two";
  EXPECT_EQ(record.points[1].cpu_busy, std::nullopt);
  EXPECT_EQ(*record.points[2].gpus[0].busy, 0.4);
}

}  // namespace
}  // namespace h5feed::test
