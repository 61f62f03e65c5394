// SPDX-License-Identifier: Apache-2.0
// tools/gpu_check.sh on a machine that has what it needs, all of it played by scripts: what it writes, and
// that it goes on where it stopped. The program that puts results together is the real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/files/file_text.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// Lists its benchmarks; otherwise writes a row for each that it is asked for, and notes what that was.
constexpr const char* kBenchmark = R"sh(#!/bin/sh
if [ "$1" = --list ]; then printf '%s\n' h2d_idle h2d_loaded soak; exit 0; fi
echo "$2" >> asked
[ -d "$6" ] || exit 1
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
[ ! -f broken ]
)sh";

constexpr const char* kTests = R"sh(#!/bin/sh
echo '[       OK ] OnGpu.one (1 ms)'
echo '[       OK ] OnGpu.two (1 ms)'
)sh";

constexpr const char* kNvidiaSmi = R"sh(#!/bin/sh
case "$*" in
  *name*) echo 'NVIDIA H200' ;;
  *driver*) echo 580.1 ;;
esac
)sh";

constexpr const char* kGit = R"sh(#!/bin/sh
case "$*" in
  *"rev-parse HEAD") cat head ;;
  *rev-parse*) echo "$*" | sed 's/.* //; s/^{commit}//' ;;
  *status*) cat changes 2>/dev/null || true ;;
esac
)sh";

class GpuCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(dir_ / "tools");
    fs::copy_file(H5FEED_SOURCE_DIR "/tools/gpu_check.sh", dir_ / "tools/gpu_check.sh");
    script("bin/nvidia-smi", kNvidiaSmi);
    script("bin/date", "#!/bin/sh\necho 20260102\n");
    script("bin/compute-sanitizer", "#!/bin/sh\necho 'Error: Device not supported'\nexit 1\n");
    script("build/gpu/tests/gpu/gpu_test", kTests);
    script("build/gpu/benchmarks/gpu/gpu_benchmark", kBenchmark);
    fs::create_symlink(GPU_RESULTS, dir_ / "build/gpu/benchmarks/gpu/gpu_results");
    write("build/gpu/CMakeFiles/3.25/CMakeCUDACompiler.cmake",
          "set(CMAKE_CUDA_COMPILER_VERSION \"13.0.88\")\n");
    write("build/gpu/check/no-torch", "no LibTorch with CUDA was found when this was built\n");
  }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  void script(const std::string& name, const std::string& text) {
    write(name, text);
    fs::permissions(dir_ / name, fs::perms::owner_all);
  }
  std::string content(const std::string& name) { return text_so_far(dir_ / name); }

  // Exit code; what was said is in `out`.
  int check(const std::string& arguments) {
    const std::string command = "cd '" + dir_.path().string() +
                                "' && PATH=\"$PWD/bin:$PATH\" tools/gpu_check.sh " + arguments + " >out 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  json result() { return json::parse(content("benchmarks/results/gpu-h200-20260102.json")); }
  static json row(const json& result, const std::string& name) {
    for (const json& one : result["rows"]) {
      if (one["name"] == name) return one;
    }
    return {};
  }

  TempDir dir_;
};

TEST_F(GpuCheck, writes_tests_and_rows_into_one_file) {
  ASSERT_EQ(check("--commit c1 test"), 0) << content("out");
  json found = result();
  EXPECT_EQ(found["commit"], "c1");
  EXPECT_EQ(found["device"], "NVIDIA H200");
  EXPECT_EQ(found["driver"], "580.1");
  EXPECT_EQ(found["cuda"], "13.0.88");
  EXPECT_EQ(found["tests"]["passed"], 2);
  EXPECT_EQ(found["tests"]["memcheck"], "not run: compute-sanitizer refuses this device");
  EXPECT_EQ(row(found, "soak")["not_run"], "the benchmarks have not run yet");

  ASSERT_EQ(check("--commit c1 bench"), 0) << content("out");
  found = result();
  EXPECT_EQ(found["command"], "tools/gpu_check.sh --commit c1 bench");
  EXPECT_EQ(found["tests"]["passed"], 2) << "kept";
  EXPECT_EQ(row(found, "soak")["value"], 4);
  EXPECT_EQ(row(found, "stall_resnet50")["not_run"], "no LibTorch with CUDA was found when this was built");
  EXPECT_EQ(row(found, "overlap_worst")["not_run"], "out of time; call tools/gpu_check.sh bench again");
  EXPECT_THAT(content("out"), HasSubstr("ratio 0.8000"));
  EXPECT_EQ(content("asked"), "h2d_idle,h2d_loaded,soak\n");
  EXPECT_FALSE(fs::exists(dir_ / "build/gpu/check/files"));
}

TEST_F(GpuCheck, measures_in_a_second_call_what_the_first_one_lacks) {
  write("broken", "h2d_loaded");
  EXPECT_EQ(check("--commit c1 bench"), 1);
  EXPECT_EQ(row(result(), "h2d_loaded")["not_run"], "it broke");
  EXPECT_EQ(row(result(), "soak")["value"], 4);
  fs::remove(dir_ / "broken");
  EXPECT_EQ(check("--commit c1 bench"), 0) << content("out");
  EXPECT_EQ(row(result(), "h2d_loaded")["value"], 4);
  EXPECT_EQ(content("asked"), "h2d_idle,h2d_loaded,soak\nh2d_loaded\n");
  // Another commit begins anew.
  EXPECT_EQ(check("--commit c2 bench"), 0);
  EXPECT_EQ(content("asked"), "h2d_idle,h2d_loaded,soak\nh2d_loaded\nh2d_idle,h2d_loaded,soak\n");
}

TEST_F(GpuCheck, fails_where_a_test_fails_or_none_ran) {
  script("build/gpu/tests/gpu/gpu_test",
         std::string(kTests) + "echo '[  FAILED  ] OnGpu.three (1 ms)'; exit 1\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_EQ(result()["tests"]["failed"], 1);
  script("build/gpu/tests/gpu/gpu_test", "#!/bin/sh\necho '[  SKIPPED ] OnGpu.one (0 ms)'\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("no test ran on the GPU"));
}

TEST_F(GpuCheck, says_what_it_lacks) {
  EXPECT_EQ(check("test"), 1);
  EXPECT_EQ(content("out"), "tools/gpu_check.sh: no git here; name the commit with --commit SHA\n");
  EXPECT_EQ(check("--commit c1 frob"), 2);
  EXPECT_EQ(check("test --commit"), 2);
  EXPECT_EQ(content("out"), "tools/gpu_check.sh: --commit needs a value\n");
  fs::remove(dir_ / "build/gpu/tests/gpu/gpu_test");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("nothing is built; run tools/gpu_check.sh build first"));
  script("bin/nvidia-smi", "#!/bin/sh\nexit 9\n");
  EXPECT_EQ(check("--commit c1 bench"), 1);
  EXPECT_THAT(content("out"), HasSubstr("nvidia-smi finds no GPU; run this stage on a machine that has one"));
}

TEST_F(GpuCheck, believes_git_where_the_tree_is_a_repository) {
  fs::create_directories(dir_ / ".git");
  script("bin/git", kGit);
  write("head", "c7");
  ASSERT_EQ(check("test"), 0) << content("out");
  EXPECT_EQ(result()["commit"], "c7");
  EXPECT_EQ(check("--commit c6 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("--commit c6 is not what is checked out, which is c7"));
  write("changes", " M cuda/kernels/normalize.cu\n");
  EXPECT_EQ(check("test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("changes that are not committed"));
  // As of a tree of another user: no reason to believe --commit.
  script("bin/git", "#!/bin/sh\necho 'fatal: detected dubious ownership' >&2\nexit 128\n");
  EXPECT_EQ(check("--commit c1 test"), 1);
  EXPECT_THAT(content("out"), HasSubstr("git does not read this tree"));
}

TEST_F(GpuCheck, tells_a_program_that_does_not_start_from_one_without_time) {
  script("build/gpu/benchmarks/gpu/gpu_benchmark",
         "#!/bin/sh\necho 'libcudart.so.13: not found' >&2\nexit 127\n");
  EXPECT_EQ(check("--commit c1 bench"), 1);
  EXPECT_THAT(content("out"), HasSubstr("does not start: libcudart.so.13: not found"));
  EXPECT_EQ(row(result(), "soak")["not_run"], "gpu_benchmark did not start");
}

TEST_F(GpuCheck, fails_where_its_results_cannot_be_read) {
  for (const char* stage : {"test", "bench"}) {
    write("benchmarks/results/gpu-h200-20260102.json", "{\"commit\": ");
    EXPECT_EQ(check(std::string("--commit c1 ") + stage), 1) << stage;
    EXPECT_THAT(content("out"), HasSubstr("gpu-h200-20260102.json could not be written")) << stage;
  }
}

TEST_F(GpuCheck, runs_the_tests_with_libtorch_where_they_were_built) {
  script("build/gpu/tests/gpu/torch_gpu_test",
         "#!/bin/sh\necho '[       OK ] Memory/TorchOnGpu.one (1 ms)'\n");
  ASSERT_EQ(check("--commit c1 test"), 0) << content("out");
  EXPECT_EQ(result()["tests"]["passed"], 3);
}

}  // namespace
}  // namespace h5feed::test
