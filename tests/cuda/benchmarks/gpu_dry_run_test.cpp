// SPDX-License-Identifier: Apache-2.0
// tools/gpu_check.sh with the real benchmarks on the tests' CUDA runtime: every row has a value or says why
// not, and a second call goes on. The figures mean nothing here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

#include "gpu/results.hpp"
#include "support/programs/gpu_machine.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// A machine with a bundle of the benchmarks, without LibTorch and with nothing to build it with.
class GpuDryRun : public ::testing::Test, protected GpuMachine {
 protected:
  void SetUp() override {
    program("bundle/gpu_results", GPU_RESULTS);
    program("bundle/gpu_benchmark", FAKE_GPU_BENCHMARK);
    script("bundle/gpu_test", "echo '[       OK ] OnGpu.one (1 ms)'");
    write("bundle/facts", "commit c1\ncuda 13.0.88\n");
    script("tools/scripts/build.sh", "exit 1");
  }

  // Number of rows that wait for another call.
  static std::ptrdiff_t rows_left(const json& result) {
    return std::ranges::count_if(bench::targets(), [&](const bench::Target& target) {
      return row(result, target.name).value("not_run", "").starts_with("not yet run");
    });
  }

  const std::string call_ = "--prebuilt bundle --results there --files files --seconds 600 all";
};

TEST_F(GpuDryRun, fills_every_row_or_says_why_not_and_measures_nothing_twice) {
  ASSERT_EQ(check(call_), 1) << content("out");
  const json first = result("there");
  for (const bench::Target& target : bench::targets()) {
    const json found = row(first, target.name);
    ASSERT_FALSE(found.is_null()) << target.name;
    const std::string why = found.value("not_run", "");
    EXPECT_NE(found["value"].is_number(), !why.empty()) << found.dump();
    EXPECT_THAT(why, Not(HasSubstr("not yet run"))) << target.name;
  }
  EXPECT_TRUE(row(first, "overlap_worst")["value"].is_number());
  EXPECT_TRUE(row(first, "normalize_plain_f16")["value"].is_number());
  EXPECT_EQ(row(first, "stall_resnet50")["not_run"],
            "gpu_benchmark_torch does not start from the bundle, and the tree could not be configured");
  EXPECT_EQ(first["tests"]["gpu_test"], "1 passed, 0 skipped, 0 failed");
  EXPECT_EQ(first["tests"]["memcheck"], "not run: compute-sanitizer refuses this device");
  EXPECT_EQ(first["tests"]["ncu_normalize_plain"], "not run: ncu may not read the GPU's counters here");

  write("there/logs/gpu_benchmark.log", "");
  EXPECT_EQ(check(call_), 1);
  EXPECT_THAT(content("there/logs/gpu_benchmark.log"), Not(HasSubstr("overlap_worst")));
  json second = result("there");
  for (const char* name : {"h2d_idle", "soak"}) {
    EXPECT_EQ(row(second, name), row(first, name));
  }
}

// Each benchmark takes 90 s, so that 600 s do not suffice.
TEST_F(GpuDryRun, stops_in_time_and_goes_on_in_a_second_call) {
  fake_clock();
  fs::rename(*this / "bundle/gpu_benchmark", *this / "bundle/benchmark");
  script("bundle/gpu_benchmark", "[ \"$1\" = --list ] || bin/pass 90\nexec bundle/benchmark \"$@\"");
  EXPECT_EQ(check(call_), 3) << content("out");
  EXPECT_LE(clock(), 600);
  const json first = result("there");
  EXPECT_TRUE(row(first, "h2d_idle")["value"].is_number());
  EXPECT_GT(rows_left(first), 0);

  const int before = clock();
  EXPECT_EQ(check(call_), 3);
  EXPECT_LE(clock() - before, 600);
  const json second = result("there");
  EXPECT_EQ(row(second, "h2d_idle"), row(first, "h2d_idle")) << "nothing is measured twice";
  EXPECT_LT(rows_left(second), rows_left(first));
}

}  // namespace
}  // namespace h5feed::test
