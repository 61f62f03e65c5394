// SPDX-License-Identifier: Apache-2.0
// tools/gpu_check.sh with the real benchmarks on the tests' CUDA runtime: every row has a value or says why
// not, and a second call goes on. The figures mean nothing here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpu/results.hpp"
#include "support/programs/gpu_machine.hpp"

namespace h5feed::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuDryRun, fills_every_row_or_says_why_not_and_measures_nothing_twice) {
  GpuMachine machine;
  machine.program("bundle/gpu_results", GPU_RESULTS);
  machine.program("bundle/gpu_benchmark", FAKE_GPU_BENCHMARK);
  machine.script("bundle/gpu_test", "echo '[       OK ] OnGpu.one (1 ms)'");
  machine.write("bundle/facts", "commit c1\ncuda 13.0.88\n");
  machine.script("tools/scripts/build.sh", "exit 1");  // without LibTorch, and nothing to build with
  const std::string call = "--prebuilt bundle --results there --files files --seconds 600 all";

  ASSERT_EQ(machine.check(call), 1) << machine.content("out");
  const json first = machine.result("there");
  for (const bench::Target& target : bench::targets()) {
    const json row = GpuMachine::row(first, target.name);
    ASSERT_FALSE(row.is_null()) << target.name;
    const std::string why = row.value("not_run", "");
    EXPECT_NE(row["value"].is_number(), !why.empty()) << row.dump();
    EXPECT_THAT(why, Not(HasSubstr("not yet run"))) << target.name;
  }
  EXPECT_TRUE(GpuMachine::row(first, "overlap_worst")["value"].is_number());
  EXPECT_TRUE(GpuMachine::row(first, "normalize_plain_f16")["value"].is_number());
  EXPECT_EQ(GpuMachine::row(first, "stall_resnet50")["not_run"],
            "gpu_benchmark_torch does not start from the bundle, and the tree could not be configured");
  EXPECT_EQ(first["tests"]["gpu_test"], "1 passed, 0 skipped, 0 failed");
  EXPECT_EQ(first["tests"]["memcheck"], "not run: compute-sanitizer refuses this device");
  EXPECT_EQ(first["tests"]["ncu_normalize_plain"], "not run: ncu may not read the GPU's counters here");

  machine.write("there/logs/gpu_benchmark.log", "");
  EXPECT_EQ(machine.check(call), 1);
  EXPECT_THAT(machine.content("there/logs/gpu_benchmark.log"), Not(HasSubstr("overlap_worst")));
  json second = machine.result("there");
  for (const char* name : {"h2d_idle", "soak"}) {
    EXPECT_EQ(GpuMachine::row(second, name), GpuMachine::row(first, name));
  }
}

}  // namespace
}  // namespace h5feed::test
