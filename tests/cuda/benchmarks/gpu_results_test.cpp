// SPDX-License-Identifier: Apache-2.0
// How results of GPU runs are put together and shown.
#include "gpu/results.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace h5feed::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const RunFacts kFacts = {
    {"commit", "c1"}, {"device", "NVIDIA H200"}, {"driver", "580"}, {"cuda", "13.0"}, {"command", "check"}};

OrderedJson row(const std::string& name, double value, double ceiling, const std::string& unit = "B/s") {
  return {{"name", name},       {"value", value},           {"unit", unit},
          {"ceiling", ceiling}, {"ratio", value / ceiling}, {"repetitions", {value}}};
}

OrderedJson not_run(const std::string& name, const std::string& why) {
  return {{"name", name}, {"value", nullptr}, {"not_run", why}};
}

const OrderedJson& row_of(const OrderedJson& result, const std::string& name) {
  for (const OrderedJson& one : result["rows"]) {
    if (one["name"] == name) return one;
  }
  throw std::runtime_error(name);
}

TEST(GpuResults, hold_the_facts_the_tests_and_a_row_for_every_name) {
  const OrderedJson tests = {{"passed", 7}};
  const OrderedJson result =
      merged({}, kFacts, tests, OrderedJson::array({row("h2d_idle", 54e9, 55e9)}), "no LibTorch with CUDA");
  EXPECT_EQ(result["commit"], "c1");
  EXPECT_EQ(result["device"], "NVIDIA H200");
  EXPECT_EQ(result["tests"], tests);
  EXPECT_EQ(result["rows"].size(), targets().size());
  EXPECT_EQ(row_of(result, "h2d_idle")["value"], 54e9);
  EXPECT_EQ(row_of(result, "stall_resnet50")["not_run"], "no LibTorch with CUDA");
  EXPECT_THAT(missing_names(result), StartsWith("h2d_loaded,normalize_plain,"));
}

TEST(GpuResults, of_a_second_call_complete_those_of_the_first) {
  const OrderedJson first = merged({}, kFacts, {{"passed", 7}},
                                   {row("h2d_idle", 50e9, 55e9), not_run("soak", "out of time")}, "later");
  OrderedJson facts = kFacts;
  facts["command"] = "again";
  EXPECT_EQ(row_of(first, "soak")["not_run"], "out of time");
  EXPECT_EQ(row_of(merged(first, kFacts, {}, OrderedJson::array(), "now"), "soak")["not_run"], "now");
  const OrderedJson second = merged(
      first, facts, {},
      {row("soak", 0, 100, "wrong samples"), not_run("h2d_idle", "failed"), row("extra", 1, 2)}, "later");
  EXPECT_EQ(second["command"], "again");
  EXPECT_EQ(second["tests"]["passed"], 7) << "kept";
  EXPECT_EQ(row_of(second, "soak")["value"], 0);
  EXPECT_EQ(row_of(second, "h2d_idle")["value"], 50e9) << "a value is not lost to a failure";
  EXPECT_EQ(row_of(second, "extra")["ratio"], 0.5);
  EXPECT_THAT(missing_names(second), Not(HasSubstr(",soak,")));
}

TEST(GpuResults, of_another_commit_or_device_are_not_mixed) {
  const OrderedJson first =
      merged({}, kFacts, {{"passed", 7}}, OrderedJson::array({row("h2d_idle", 50e9, 55e9)}), "later");
  for (const char* key : {"commit", "device"}) {
    OrderedJson facts = kFacts;
    facts[key] = "another";
    const OrderedJson other = merged(first, facts, {}, OrderedJson::array(), "later");
    EXPECT_TRUE(row_of(other, "h2d_idle")["value"].is_null()) << key;
    EXPECT_TRUE(other["tests"].is_null());
  }
}

TEST(GpuResults, are_not_yet_measured_where_there_are_none) {
  const std::string table = markdown({});
  EXPECT_THAT(table, StartsWith("| what | wanted | measured |"));
  EXPECT_THAT(table, HasSubstr("| data stall of a ResNet-50 step | at most 2 % | not yet measured | | |\n"));
  EXPECT_EQ(missing_names({}).find("h2d_idle,"), 0u);
}

TEST(GpuResults, say_what_was_reached_and_what_was_missed) {
  const OrderedJson result =
      merged({}, kFacts, {},
             {row("h2d_idle", 54e9, 55e9), row("h2d_loaded", 40e9, 55e9),
              row("stall_resnet50", 0.001, 0.1, "s"), row("soak", 0, 25.6e6, "wrong samples")},
             "later");
  const std::string table = markdown(result);
  EXPECT_THAT(table, StartsWith("NVIDIA H200, driver 580, CUDA 13.0, commit c1. Command: `check`."));
  EXPECT_THAT(table,
              HasSubstr("loader idle, of a bare pinned loop | at least 95 % | 98.2 % | 54 GB/s | 55 GB/s |"));
  EXPECT_THAT(table, HasSubstr("| at least 80 % | 72.7 % (missed) | 40 GB/s | 55 GB/s |"));
  EXPECT_THAT(table, HasSubstr("| at most 2 % | 1.0 % | 1 ms | 100 ms |"));
  EXPECT_THAT(table, HasSubstr("| at most 0 | 0.00 | 0 wrong samples | 2.56e+07 wrong samples |"));
  EXPECT_THAT(table_text(result), HasSubstr("gpu_use_h5feed                 not run: later\n"));
}

}  // namespace
}  // namespace h5feed::bench
