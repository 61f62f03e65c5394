// SPDX-License-Identifier: Apache-2.0
// tools/gpu_check.sh on a machine that has what it needs, all of it played by scripts: what it runs and
// writes, and that it goes on where it stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/programs/gpu_machine.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Lists its benchmarks; otherwise notes the one that it is asked for and writes its rows.
constexpr const char* kBenchmark = R"sh(
if [ "$1" = --list ]; then printf '%s\n' h2d_idle h2d_loaded soak,soak_host_growth; exit 0; fi
[ -d "$6" ] && [ "$7" = --keep ] || exit 9
. ./run_benchmark
)sh";
// Stands in for the program of benchmarks with LibTorch.
constexpr const char* kTorchBenchmark = R"sh(
if [ "$1" = --list ]; then printf '%s\n' exposed_copy stall_resnet50_ring; exit 0; fi
. ./run_benchmark
)sh";
constexpr const char* kRunBenchmark = R"sh(
echo "$2" >> asked
if [ "$2" = "$(cat hangs 2>/dev/null)" ]; then pass 100000; exit 0; fi
[ ! -f bin/pass ] || pass 100
printf '{"rows": [' > "$4"
first=1
for name in $(echo "$2" | tr , ' '); do
  [ -n "$first" ] || printf ',' >> "$4"
  first=
  if [ "$name" = "$(cat broken 2>/dev/null)" ]; then
    printf '{"name": "%s", "value": null, "not_run": "it broke"}' "$name" >> "$4"
  else
    printf '{"name": "%s", "value": 4, "unit": "B/s", "ceiling": 5, "ratio": 0.8, "repetitions": [4]}' "$name" >> "$4"
  fi
done
echo ']}' >> "$4"
[ "$2" != "$(cat broken 2>/dev/null)" ]
)sh";

constexpr const char* kTests = R"sh(
[ "$1" != --gtest_list_tests ] || exit 0
echo "$0" >> tested
echo '[       OK ] OnGpu.one (1 ms)'
echo '[       OK ] OnGpu.two (1 ms)'
)sh";

constexpr const char* kGit = R"sh(
case "$*" in
  *"rev-parse HEAD") cat head ;;
  *rev-parse*) echo "$*" | sed 's/.* //; s/^{commit}//' ;;
  *status*) cat changes 2>/dev/null || true ;;
esac
)sh";

class GpuCheck : public ::testing::Test, protected GpuMachine {
 protected:
  // The programs are in build/, as after the stage `build` without LibTorch.
  void SetUp() override {
    script("build/gpu/tests/gpu/gpu_test", kTests);
    script("build/gpu/benchmarks/gpu/gpu_benchmark", kBenchmark);
    write("run_benchmark", kRunBenchmark);
    program("build/gpu/benchmarks/gpu/gpu_results", GPU_RESULTS);
    write("build/gpu/CMakeFiles/3.25/CMakeCUDACompiler.cmake",
          "set(CMAKE_CUDA_COMPILER_VERSION \"13.0.88\")\n");
    write("build/gpu/no-torch", "no LibTorch with CUDA was found when this was built\n");
  }

  // A bundle of commit c1 with all programs.
  void bundle() {
    program("bundle/gpu_results", GPU_RESULTS);
    script("bundle/gpu_test", kTests);
    script("bundle/gpu_benchmark", kBenchmark);
    script("bundle/torch_gpu_test", kTests);
    script("bundle/gpu_benchmark_torch", kTorchBenchmark);
    write("bundle/facts", "commit c1\ncuda 13.0.99\n");
    fs::remove_all(*this / "build");
  }
};

TEST_F(GpuCheck, writes_tests_and_rows_into_one_file) {
  ASSERT_EQ(check("--commit c1 test"), 0) << content("out");
  json found = result();
  EXPECT_EQ(found["commit"], "c1");
  EXPECT_EQ(found["device"], "NVIDIA H200");
  EXPECT_EQ(found["driver"], "580.1");
  EXPECT_EQ(found["cuda"], "13.0.88");
  EXPECT_EQ(found["torch"], "none");
  EXPECT_EQ(found["pcie"], "generation 5, width 16");
  EXPECT_THAT(found["cpu"].get<std::string>(), HasSubstr(" threads"));
  EXPECT_FALSE(found["kernel"].get<std::string>().empty());
  EXPECT_EQ(found["tests"]["gpu_test"], "2 passed, 0 skipped, 0 failed");
  EXPECT_EQ(found["tests"]["torch_gpu_test"], "not run: no LibTorch with CUDA was found when this was built");
  EXPECT_EQ(row(found, "soak")["not_run"], "not yet run; call tools/gpu_check.sh again");

  ASSERT_EQ(check("--commit c1 bench"), 0) << content("out");
  found = result();
  EXPECT_EQ(found["command"], "tools/gpu_check.sh --commit c1 bench");
  EXPECT_EQ(found["tests"]["gpu_test"], "2 passed, 0 skipped, 0 failed") << "kept";
  EXPECT_EQ(row(found, "soak")["value"], 4);
  EXPECT_EQ(row(found, "stall_resnet50")["not_run"], "no LibTorch with CUDA was found when this was built");
  EXPECT_THAT(content("out"), HasSubstr("ratio 0.8000"));
  EXPECT_EQ(content("asked"), "h2d_idle\nh2d_loaded\nsoak,soak_host_growth\n");
  for (const auto& entry : fs::directory_iterator(*this / "build/gpu/check")) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("files")))
        << "the benchmarks' files are removed";
  }
}

TEST_F(GpuCheck, does_not_let_memcheck_count_the_answer_not_ready) {
  script("bin/compute-sanitizer", "echo \"$*\" >> checked");
  ASSERT_EQ(check("--commit c1 sanitize"), 0) << content("out");
  EXPECT_EQ(result()["tests"]["memcheck"], "passed");
  EXPECT_EQ(result()["tests"]["racecheck"], "passed");
  const std::vector<std::string> calls = lines_of(content("checked"));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(calls[0], HasSubstr("--tool memcheck --report-api-errors no "));
  EXPECT_THAT(calls[1], AllOf(HasSubstr("--tool racecheck "), Not(HasSubstr("report-api-errors"))));
}

TEST_F(GpuCheck, profiles_four_kernels_at_the_clock_of_the_benchmarks) {
  script("bin/ncu", R"sh(
    echo "$*" >> profiled
    echo '    Duration                         us       180.51'
    echo '    DRAM Throughput                   %        88.10')sh");
  ASSERT_EQ(check("--commit c1 profile"), 0) << content("out");
  EXPECT_EQ(result()["tests"]["ncu_normalize_plain"],
            "profiled: Duration 180.51 us, DRAM Throughput 88.10 %");
  const std::vector<std::string> calls = lines_of(content("profiled"));
  ASSERT_EQ(calls.size(), 4u);
  for (const std::string& call : calls) EXPECT_THAT(call, HasSubstr("--clock-control none "));
  EXPECT_THAT(calls[3], HasSubstr("--only normalize_augmented_f16 "));
  script("bin/ncu", "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1");
  ASSERT_EQ(check("--commit c1 profile"), 0);
  EXPECT_EQ(result()["tests"]["ncu_normalize_plain"], "not run: ncu may not read the GPU's counters here");
}

TEST_F(GpuCheck, measures_in_a_second_call_what_the_first_one_lacks) {
  write("broken", "h2d_idle");
  EXPECT_EQ(check("--commit c1 bench"), 1);
  EXPECT_EQ(row(result(), "h2d_idle")["not_run"], "it broke");
  EXPECT_EQ(row(result(), "soak")["value"], 4) << "each is a process of its own";
  fs::remove(*this / "broken");
  fs::remove(*this / "asked");
  EXPECT_EQ(check("--commit c1 bench"), 0) << content("out");
  EXPECT_EQ(row(result(), "h2d_idle")["value"], 4);
  EXPECT_EQ(content("asked"), "h2d_idle\n");
  // Another commit starts with empty results.
  EXPECT_EQ(check("--commit c2 bench"), 0);
  EXPECT_EQ(content("asked"), "h2d_idle\nh2d_idle\nh2d_loaded\nsoak,soak_host_growth\n");
}

TEST_F(GpuCheck, shares_its_time_among_all_stages_and_goes_on_in_a_second_call) {
  bundle();
  fake_clock();
  script("bundle/gpu_test", std::string(kTests) + "pass 60");
  script("bin/compute-sanitizer", "pass 60");
  script("bin/ncu", "pass 10; echo '    Duration        us       180.51'");
  const std::string call = "--prebuilt bundle --results there --seconds 400 all";
  EXPECT_EQ(check(call), 3) << content("out");
  EXPECT_LE(clock(), 400);
  EXPECT_EQ(content("asked"), "h2d_idle\nh2d_loaded\nsoak,soak_host_growth\nexposed_copy\n");
  json found = result("there");
  EXPECT_EQ(row(found, "soak")["value"], 4) << "saved when it ended";
  EXPECT_EQ(row(found, "exposed_copy")["not_run"], "not yet run; call tools/gpu_check.sh again");
  EXPECT_FALSE(found["tests"].contains("memcheck"));

  const int first = clock();
  fs::remove(*this / "asked");
  EXPECT_EQ(check(call), 0) << content("out");
  EXPECT_LE(clock() - first, 400);
  EXPECT_EQ(content("asked"), "exposed_copy\nstall_resnet50_ring\n") << "no benchmark twice";
  found = result("there");
  EXPECT_EQ(found["tests"]["memcheck"], "passed");
  EXPECT_EQ(found["tests"]["racecheck"], "passed");
  EXPECT_THAT(found["tests"]["ncu_normalize_augmented_f16"].get<std::string>(), HasSubstr("180.51 us"));
  EXPECT_EQ(lines_of(content("tested")).size(), 2u) << "no test twice";
  EXPECT_FALSE(fs::exists(*this / "build"));
  EXPECT_FALSE(fs::exists(*this / "benchmarks"));
}

TEST_F(GpuCheck, ends_a_benchmark_that_hangs_and_begins_with_the_others_in_the_next_call) {
  bundle();
  fake_clock();
  write("hangs", "h2d_idle");
  const std::string call = "--prebuilt bundle --seconds 360 all";
  EXPECT_EQ(check(call), 1) << content("out");
  EXPECT_LE(clock(), 360);
  EXPECT_EQ(row(result(), "h2d_idle")["not_run"], "it took longer than 240 s and was ended");
  EXPECT_EQ(row(result(), "h2d_loaded")["value"], 4);
  EXPECT_EQ(content("asked"), "h2d_idle\nh2d_loaded\nsoak,soak_host_growth\n");
  fs::remove(*this / "asked");
  check(call);
  EXPECT_EQ(lines_of(content("asked")).front(), "soak,soak_host_growth");
}

TEST_F(GpuCheck, builds_what_does_not_start_from_a_bundle) {
  bundle();
  script("bundle/gpu_benchmark", "echo 'libhdf5.so: not found' >&2; exit 127");
  script("tools/scripts/build.sh", R"sh(
    mkdir -p build/gpu/tests/gpu build/gpu/benchmarks/gpu build/gpu/CMakeFiles/3.25
    cp bundle/gpu_test build/gpu/tests/gpu/
    cp bundle/gpu_benchmark_torch build/gpu/benchmarks/gpu/gpu_benchmark
    ln -sf "$(readlink bundle/gpu_results)" build/gpu/benchmarks/gpu/gpu_results
    echo 'set(CMAKE_CUDA_COMPILER_VERSION "13.0.88")' > build/gpu/CMakeFiles/3.25/CMakeCUDACompiler.cmake)sh");
  EXPECT_EQ(check("--prebuilt bundle all"), 0) << content("out");
  EXPECT_THAT(content("out"),
              HasSubstr("gpu_benchmark does not start and is built here: libhdf5.so: not found"));
  EXPECT_EQ(result()["cuda"], "13.0.88");
  EXPECT_THAT(lines_of(content("tested")).front(), HasSubstr("build/gpu/tests/gpu/gpu_test"));
  EXPECT_EQ(check("--prebuilt nowhere all"), 1);
  EXPECT_THAT(content("out"), HasSubstr("nowhere is no bundle; make one with --bundle"));
  EXPECT_EQ(check("--prebuilt bundle --commit c2 all"), 1);
  EXPECT_THAT(content("out"), HasSubstr("is of commit c1, not of c2; make it again"));
}

TEST_F(GpuCheck, goes_on_with_what_could_be_built) {
  fs::remove(*this / "build/gpu/no-torch");
  write("build/gpu/CMakeCache.txt", "");
  write("torch", kTorchBenchmark);
  script("tools/scripts/build.sh", "true");
  script("bin/cmake", R"sh(
    case "$*" in
      *help) printf '%s: phony\n' torch_gpu_test gpu_benchmark_torch ;;
      *torch_gpu_test) echo 'undefined reference' >&2; exit 1 ;;
      *gpu_benchmark_torch)
        (echo '#!/bin/sh'; cat torch) > build/gpu/benchmarks/gpu/gpu_benchmark_torch
        chmod +x build/gpu/benchmarks/gpu/gpu_benchmark_torch ;;
    esac)sh");
  EXPECT_EQ(check("--commit c1 all"), 1);
  EXPECT_EQ(result()["tests"]["gpu_test"], "2 passed, 0 skipped, 0 failed");
  EXPECT_EQ(result()["tests"]["torch_gpu_test"], "not run: torch_gpu_test could not be built");
  EXPECT_EQ(row(result(), "exposed_copy")["value"], 4);
}

TEST_F(GpuCheck, bundles_programs_with_the_libraries_that_other_machines_lack) {
  script("bin/strip", "cp -L \"$3\" \"$2\"");
  write("libs/libhdf5.so.103", "hdf5");
  script("bin/ldd", R"sh(
    echo "libhdf5.so.103 => $PWD/libs/libhdf5.so.103 (0x1)"
    printf '%s => %s (0x1)\n' libc.so.6 /lib/libc.so.6 libcudart.so.13 /usr/local/cuda/lib64/libcudart.so.13 \
      libgomp.so.1 /venv/site-packages/torch.libs/libgomp.so.1)sh");
  script("tools/scripts/build.sh", "true");
  write("build/gpu/CMakeCache.txt", "");
  ASSERT_EQ(check("--commit c1 --bundle made build"), 0) << content("out");
  EXPECT_EQ(content("made/facts"), "commit c1\ncuda 13.0.88\n");
  EXPECT_EQ(content("made/gpu_test"), content("build/gpu/tests/gpu/gpu_test"));
  std::vector<std::string> copied;
  for (const auto& entry : fs::directory_iterator(*this / "made/lib"))
    copied.push_back(entry.path().filename());
  EXPECT_THAT(copied, ::testing::ElementsAre("libhdf5.so.103"));
}

TEST_F(GpuCheck, fails_where_a_test_fails_or_none_ran) {
  script("build/gpu/tests/gpu/gpu_test",
         std::string(kTests) + "echo '[  FAILED  ] OnGpu.three (1 ms)'; exit 1\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_EQ(result()["tests"]["gpu_test"], "2 passed, 0 skipped, 1 failed");
  script("build/gpu/tests/gpu/gpu_test", std::string(kTests) + "exit 139\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_EQ(result()["tests"]["gpu_test"], "ended with status 139: 2 passed, 0 skipped, 0 failed");
  script("build/gpu/tests/gpu/gpu_test", "echo '[  SKIPPED ] OnGpu.one (0 ms)'\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("no test ran on the GPU"));
}

TEST_F(GpuCheck, says_what_it_lacks) {
  EXPECT_EQ(check("test"), 1);
  EXPECT_EQ(content("out"), "tools/gpu_check.sh: no git here; name the commit with --commit SHA\n");
  EXPECT_EQ(check("--commit c1 frob"), 2);
  EXPECT_EQ(check("--seconds soon"), 2);
  EXPECT_EQ(check("test --commit"), 2);
  EXPECT_EQ(content("out"), "tools/gpu_check.sh: --commit needs a value\n");
  fs::remove(*this / "build/gpu/tests/gpu/gpu_test");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("nothing is built; run tools/gpu_check.sh build first"));
  script("build/gpu/tests/gpu/gpu_test", kTests);
  script("bin/nvidia-smi", "exit 9\n");
  EXPECT_EQ(check("--commit c1 bench"), 1);
  EXPECT_THAT(content("out"), HasSubstr("nvidia-smi finds no GPU; run this stage on a machine that has one"));
}

TEST_F(GpuCheck, believes_git_where_the_tree_is_a_repository) {
  fs::create_directories(*this / ".git");
  script("bin/git", kGit);
  write("head", "c7");
  ASSERT_EQ(check("test"), 0) << content("out");
  EXPECT_EQ(result()["commit"], "c7");
  EXPECT_EQ(check("--commit c6 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("--commit c6 is not what is checked out, which is c7"));
  write("changes", " M cuda/kernels/normalize.cu\n");
  EXPECT_EQ(check("test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("changes that are not committed"));
  // Git refuses a tree of another user; --commit is not to be believed then.
  script("bin/git", "echo 'fatal: detected dubious ownership' >&2\nexit 128\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("git does not read this tree"));
}

TEST_F(GpuCheck, tells_a_program_that_does_not_start_from_one_without_time) {
  script("build/gpu/benchmarks/gpu/gpu_benchmark", "echo 'libcudart.so.13: not found' >&2\nexit 127\n");
  EXPECT_EQ(check("--commit c1 bench"), 1);
  EXPECT_THAT(content("out"), HasSubstr("does not start: libcudart.so.13: not found"));
  EXPECT_EQ(row(result(), "soak")["not_run"], "gpu_benchmark did not start");
  EXPECT_EQ(row(result(), "exposed_copy")["not_run"], "no LibTorch with CUDA was found when this was built");
}

TEST_F(GpuCheck, fails_where_its_results_cannot_be_read) {
  for (const char* stage : {"test", "bench"}) {
    write("benchmarks/results/gpu-h200-20260102.json", "{\"commit\": ");
    EXPECT_EQ(check(std::string("--commit c1 ") + stage), 1) << stage;
    EXPECT_THAT(content("out"), HasSubstr("gpu-h200-20260102.json could not be written")) << stage;
  }
}

TEST_F(GpuCheck, runs_the_tests_with_libtorch_where_they_were_built) {
  script("build/gpu/tests/gpu/torch_gpu_test", "echo '[       OK ] Memory/TorchOnGpu.one (1 ms)'\n");
  ASSERT_EQ(check("--commit c1 test"), 0) << content("out");
  EXPECT_EQ(result()["tests"]["torch_gpu_test"], "1 passed, 0 skipped, 0 failed");
}

}  // namespace
}  // namespace h5feed::test
