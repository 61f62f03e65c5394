// SPDX-License-Identifier: Apache-2.0
// The GPU benchmarks on the tests' CUDA runtime, at tiny sizes: that they run to their end, clean up, and
// write what they should. Their figures mean nothing here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gpu/bench.hpp"
#include "gpu/kernels.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::bench {

// The kernels of the benchmarks on the fake runtime.
cudaError_t launch_spin(std::uint64_t, int, cudaStream_t stream) noexcept {
  return h5feed::test::fake_launch(stream, [] {});
}

cudaError_t launch_soak_check(const SoakCheck& check, cudaStream_t stream) noexcept {
  return h5feed::test::fake_launch(stream, [check] {
    for (std::uint32_t sample = 0; sample < check.samples; ++sample) {
      for (std::uint32_t i = 0; i < check.sample_bytes; ++i) {
        if (check.data[sample * check.sample_bytes + i] == soak_byte(check.expected[sample], i)) continue;
        ++*check.wrong_samples;
        break;
      }
    }
  });
}

namespace {

using h5feed::test::FakeCuda;
using h5feed::test::FakeCudaLive;
using h5feed::test::TempDir;
using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GpuBenchmarks : public ::testing::Test {
 protected:
  int run(std::vector<std::string> arguments, const std::vector<Benchmark>& benchmarks = plain_benchmarks()) {
    const std::vector<std::string> common = {
        "--tiny", "--out", (dir_ / "rows.json").string(), "--folder", dir_.path().string(), "--workers", "2"};
    arguments.insert(arguments.end(), common.begin(), common.end());
    return run_benchmarks(arguments, benchmarks);
  }
  json rows() {
    std::ifstream in(dir_ / "rows.json");
    return json::parse(in)["rows"];
  }

  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  }

  TempDir dir_;
  FakeCuda cuda_{{.memory_bytes = std::size_t{1} << 28}};
};

TEST_F(GpuBenchmarks, run_to_their_end_and_write_a_row_for_every_name) {
  ASSERT_EQ(run({}), 0);
  std::set<std::string> seen;
  for (const json& row : rows()) {
    const std::string name = row["name"];
    EXPECT_TRUE(seen.insert(name).second) << name << " comes twice";
    if (name == "threads_16") {
      EXPECT_EQ(row["not_run"], "asks for 16 CPUs; threads_2_* tell of these");
      continue;
    }
    ASSERT_FALSE(row.contains("not_run")) << row.dump();
    EXPECT_FALSE(row["unit"].get<std::string>().empty()) << name;
    ASSERT_FALSE(row["repetitions"].empty()) << name;
    EXPECT_EQ(row["repetitions"].size(), row["ceiling_repetitions"].size()) << name;
    EXPECT_TRUE(std::isfinite(row["ratio"].get<double>())) << name;
    const double ceiling = row["ceiling"];
    EXPECT_DOUBLE_EQ(row["ratio"], ceiling > 0 ? row["value"].get<double>() / ceiling : 0) << name;
  }
  for (const Benchmark& benchmark : plain_benchmarks()) {
    for (const std::string& name : benchmark.names) EXPECT_THAT(seen, Contains(name));
  }
  EXPECT_THAT(names(), ElementsAre("rows.json")) << "files are removed";
  EXPECT_EQ(cuda_.live(), FakeCudaLive{});
  EXPECT_EQ(cuda_.pageable_copies() > 0, true) << "tables of coefficients";
}

TEST_F(GpuBenchmarks, find_no_wrong_sample_in_the_soak) {
  ASSERT_EQ(run({"--only", "soak"}), 0);
  const json all = rows();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["name"], "soak");
  EXPECT_EQ(all[0]["value"], 0);
  EXPECT_GE(all[0]["ceiling"], 480) << "60 batches of 8, each compared once at least";
}

TEST(SoakCheck, counts_samples_that_are_not_what_they_should_be) {
  FakeCuda cuda;
  std::vector<std::uint8_t> samples(3 * 16);
  for (std::uint32_t i = 0; i < 16; ++i) {
    samples[i] = soak_byte(5, i);
    samples[16 + i] = soak_byte(6, i);
    samples[32 + i] = soak_byte(7, i);
  }
  samples[20] ^= 1;
  std::uint32_t wrong = 0;
  const SoakCheck check{.data = samples.data(),
                        .samples = 3,
                        .sample_bytes = 16,
                        .expected = {5, 6, 8},
                        .wrong_samples = &wrong};
  ASSERT_EQ(launch_soak_check(check, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(wrong, 2u) << "a flipped bit, and another sample";
}

TEST_F(GpuBenchmarks, go_on_after_one_that_fails_and_keep_its_message) {
  const std::vector<Benchmark> benchmarks = {
      {{"first", "second"}, [](Bench&) -> std::vector<Row> { throw std::runtime_error("no such thing"); }},
      {{"third"}, [](Bench&) -> std::vector<Row> {
         return {{.name = "third", .unit = "B", .pairs = {{3, 1, 2}, {4, 4, 4}}, .note = "a note"}};
       }}};
  EXPECT_EQ(run({}, benchmarks), 1);
  const json all = rows();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["not_run"], "no such thing");
  EXPECT_EQ(all[1]["value"], json());
  EXPECT_EQ(all[2], (json{{"name", "third"},
                          {"value", 2},
                          {"unit", "B"},
                          {"ceiling", 4},
                          {"ratio", 0.5},
                          {"repetitions", {3, 1, 2}},
                          {"ceiling_repetitions", {4, 4, 4}},
                          {"note", "a note"}}));
  EXPECT_EQ(run({"--only", "third"}, benchmarks), 0);
  EXPECT_EQ(rows().size(), 1u);
}

TEST_F(GpuBenchmarks, say_why_they_did_not_run_where_the_gpu_fails) {
  cuda_.fail_call(1, cudaErrorMemoryAllocation, true);
  EXPECT_EQ(run({"--only", "h2d_idle,overlap_worst"}), 1);
  for (const json& row : rows())
    EXPECT_THAT(row["not_run"].get<std::string>(), HasSubstr("cudaErrorMemoryAllocation"));
  EXPECT_THAT(names(), ElementsAre("rows.json"));
}

TEST_F(GpuBenchmarks, refuse_what_they_do_not_know) {
  EXPECT_EQ(run({"--frob"}), 2);
  EXPECT_EQ(run({"--only", "h2d_idle,nonsense"}), 2);
  EXPECT_EQ(run({"--workers", "none"}), 2);
  EXPECT_EQ(run({"--list"}), 0);
  EXPECT_THAT(names(), IsEmpty());
}

TEST(Alternate, changes_the_order_each_time_and_leaves_out_the_first_pair) {
  std::string order;
  double value = 0, ceiling = 100;
  const Pairs pairs = alternate(
      3,
      [&] {
        order += 'v';
        return ++value;
      },
      [&] {
        order += 'c';
        return ++ceiling;
      });
  EXPECT_EQ(order,
            "cv"
            "vc"
            "cv"
            "vc");
  EXPECT_THAT(pairs.values, ElementsAre(2, 3, 4));
  EXPECT_THAT(pairs.ceilings, ElementsAre(102, 103, 104));
}

}  // namespace
}  // namespace h5feed::bench
