// SPDX-License-Identifier: Apache-2.0
// tools/scripts/house.sh, on this repository and on trees with one violation each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kLicense = "// SPDX-License-Identifier: Apache-2.0\n";

struct Verdict {
  int exit_code = -1;
  std::string text;
};

Verdict check(const fs::path& root) {
  const std::string command = H5FEED_SOURCE_DIR "/tools/scripts/house.sh '" + root.string() + "' 2>&1";
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Verdict verdict;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe))
    verdict.text += static_cast<char>(byte);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) verdict.exit_code = WEXITSTATUS(status);
  return verdict;
}

class House : public ::testing::Test {
 protected:
  void plant(const std::string& file, const std::string& text) {
    fs::create_directories((dir_.path() / file).parent_path());
    std::ofstream(dir_.path() / file) << text;
  }
  void expect_violation(const std::string& text) {
    const Verdict run = check(dir_.path());
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.text, HasSubstr(text));
  }
  TempDir dir_;
};

TEST_F(House, is_in_order) {
  const Verdict run = check(H5FEED_SOURCE_DIR);
  EXPECT_EQ(run.exit_code, 0) << run.text;
  EXPECT_THAT(run.text, StartsWith("house: "));
}

TEST_F(House, has_no_source_without_a_license_line) {
  plant("loader/base/a.cpp", "#include <vector>\n");
  expect_violation("loader/base/a.cpp:1: no license line");
}

TEST_F(House, has_no_script_without_a_license_line_in_its_first_three_lines) {
  const std::string line = "# SPDX-License-Identifier: Apache-2.0\n";
  plant("tools/good.sh", "#!/usr/bin/env bash\n# What it does\n" + line);
  const std::vector<std::string> bad = {"tools/a.sh",     "benchmarks/a.py",       "cmake/a.cmake",
                                        "cmake/a.hpp.in", "loader/CMakeLists.txt", ".ci/run"};
  for (const std::string& file : bad) plant(file, "#!/usr/bin/env bash\n\n\n" + line);
  const Verdict run = check(dir_.path());
  EXPECT_EQ(run.exit_code, 1);
  for (const std::string& file : bad) EXPECT_THAT(run.text, HasSubstr(file + ":1: no license line"));
  EXPECT_THAT(run.text, Not(HasSubstr("good.sh")));
}

TEST_F(House, has_no_rooms_that_include_each_other_in_a_circle) {
  const auto table = [](const std::string& base) {
    return "## Folders\n\n| `loader/base` | b | " + base +
           "|\n| `loader/plan` | p | `base` |\n| `loader/flow` | f | `base` `plan` |\n| `tools` | t | "
           "`loader` |\n";
  };
  plant("loader/base/a.cpp", kLicense);
  plant("docs/rooms.md", table(""));
  EXPECT_EQ(check(dir_.path()).exit_code, 0);
  plant("docs/rooms.md", table("`flow` "));
  expect_violation("docs/rooms.md: the folders include each other in a circle: loader/");
}

TEST_F(House, has_the_same_rules_for_python) {
  plant("python/h5feed/a.pyi", "import os\n");
  expect_violation("python/h5feed/a.pyi:1: no license line");
  std::string text = "# SPDX-License-Identifier: Apache-2.0\n";
  for (int line = 0; line < 400; ++line) text += "\n";
  plant("python/h5feed/b.py", text);
  expect_violation("python/h5feed/b.py:401: more than 400 lines");
}

TEST_F(House, has_no_long_source) {
  std::string text = kLicense;
  for (int line = 0; line < 400; ++line) text += "\n";
  plant("loader/base/a.cpp", text);
  expect_violation("loader/base/a.cpp:401: more than 400 lines");
}

TEST_F(House, has_no_full_folder) {
  for (int file = 0; file < 33; ++file) plant("tools/info/" + std::to_string(file) + ".cpp", kLicense);
  expect_violation("tools/info: 33 sources, at most 32");
}

TEST_F(House, tells_the_longest_of_more_files_than_a_pipe_holds) {
  // The names alone are more than 64 KiB, in a folder whose number of sources has no limit.
  const std::string folder = "docs/" + std::string(200, 'd') + "/";
  for (int file = 0; file < 400; ++file) plant(folder + std::to_string(file) + ".hpp", kLicense);
  plant(folder + "long.hpp", std::string(kLicense) + "\n");
  plant("docs/rooms.md", "## Folders\n\n| `docs` | d | all |\n");
  const Verdict run = check(dir_.path());
  EXPECT_EQ(run.exit_code, 0) << run.text;
  EXPECT_THAT(run.text, HasSubstr("longest file 2 lines (" + folder + "long.hpp)"));
}

TEST_F(House, has_a_short_readme) {
  std::string text;
  for (int line = 0; line < 151; ++line) text += "\n";
  plant("README.md", text);
  expect_violation("README.md: 151 lines, at most 150");
}

// One file with one include in an otherwise empty tree.
struct Planted {
  std::string file;
  std::string include;
  std::string complaint;  // empty: allowed
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.file << " " << planted.include; }

class PlantedInclude : public House, public ::testing::WithParamInterface<Planted> {};

TEST_P(PlantedInclude, is_judged_by_the_table) {
  plant(GetParam().file, std::string(kLicense) + "#include " + GetParam().include + "\n");
  const Verdict run = check(dir_.path());
  EXPECT_EQ(run.exit_code, GetParam().complaint.empty() ? 0 : 1) << run.text;
  EXPECT_THAT(run.text, HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlantedInclude,
    ::testing::Values(
        Planted{"loader/cache/a.cpp", "\"base/mutex.hpp\"", ""},
        Planted{"loader/cache/a.cpp", "\"plan/epoch_plan.hpp\"",
                "loader/cache/a.cpp:2: includes \"plan/epoch_plan.hpp\": loader/cache must not use plan"},
        Planted{"loader/cache/a.cpp", "<plan/epoch_plan.hpp>",
                "loader/cache/a.cpp:2: includes <plan/epoch_plan.hpp>: loader/cache must not use plan"},
        Planted{"loader/cache/a.cpp", "<h5feed/options.hpp>", ""},
        Planted{"cuda/kernels/a.cu", "<cuda/std/array>", ""},
        Planted{"loader/base/a.hpp", "\"store/filters/filters.hpp\"",
                "loader/base must not use store/filters"},
        Planted{"loader/store/filters/a.cpp", "\"store/format/byte_order.hpp\"", ""},
        Planted{"loader/store/format/a.cpp", "\"store/filters/filters.hpp\"",
                "loader/store/format must not use store/filters"},
        Planted{"loader/store/read/a.cpp", "\"store/write/h5_writer.hpp\"",
                "loader/store/read must not use store/write"},
        Planted{"loader/store/read/a.cpp", "\"flow/batches/ticket_ring.hpp\"",
                "loader/store/read must not use flow/batches"},
        Planted{"loader/include/h5feed/a.hpp", "\"base/mutex.hpp\"", "must not use base"},
        Planted{"loader/flow/a.cpp", "\"tools/program/cli.hpp\"", "loader/flow must not use tools/program"},
        Planted{"loader/flow/a.cpp", "\"batch/normalize.hpp\"", ""},
        Planted{"loader/flow/a.cpp", "\"ticket_ring.hpp\"", "without its folder"},
        Planted{"loader/flow/chunks/a.cpp", "\"flow/batches/prefetcher.hpp\"",
                "loader/flow/chunks must not use flow/batches"},
        Planted{"loader/flow/a.cpp", "<tbb/concurrent_queue.h>", ""},
        Planted{"loader/cache/a.cpp", "<tbb/concurrent_queue.h>", "TBB has no place there"},
        Planted{"loader/store/hdf5/a.cpp", "<H5Cpp.h>", ""},
        Planted{"loader/dataset/a.cpp", "<H5Ppublic.h>", "HDF5 has no place there"},
        Planted{"loader/dataset/a.cpp", "  <hdf5.h>", "HDF5 has no place there"},
        Planted{"loader/images/opencv_images.cpp", "<opencv2/imgcodecs.hpp>", ""},
        Planted{"tools/info/info.cpp", "<opencv2/imgcodecs.hpp>", "OpenCV has no place there"},
        Planted{"tools/info/info.cpp", "\"flow/resolve/advice.hpp\"", ""},
        Planted{"tools/info/info.cpp", "\"tools/bench/report.hpp\"", "tools/info must not use tools/bench"},
        Planted{"loader/include/h5feed/torch.hpp", "<torch/types.h>", ""},
        Planted{"cuda/include/h5feed/torch/cuda.hpp", "<ATen/ATen.h>", ""},
        Planted{"cuda/cuda_device.cpp", "<ATen/ATen.h>", "Torch has no place there"},
        Planted{"tools/bench/bench.cpp", "<torch/torch.h>", "Torch has no place there"},
        Planted{"loader/batch/a.cpp", "<cuda_runtime.h>", "CUDA has no place there"},
        Planted{"cuda/kernels/a.cu", "\"batch/normalize.hpp\"", ""},
        Planted{"cuda/a.cpp", "\"tools/program/cli.hpp\"", "cuda must not use tools/program"},
        Planted{"cuda/include/h5feed/gpu.hpp", "\"cuda/runtime/check.hpp\"", "must not use cuda/runtime"},
        Planted{"examples/a.cpp", "\"flow/batches/prefetcher.hpp\"", "examples must not use flow/batches"},
        Planted{"python/src/a.cpp", "\"h5feed/data_loader.hpp\"", ""},
        Planted{"python/src/a.cpp", "\"flow/batches/prefetcher.hpp\"",
                "python/src must not use flow/batches"},
        Planted{"loader/flow/a.cpp", "<nanobind/nanobind.h>", "Python has no place there"},
        Planted{"benchmarks/gpu/a.cpp", "\"gpu/results.hpp\"", ""},
        Planted{"tests/unit/a.cpp", "\"tools/program/cli.hpp\"", ""},
        Planted{"loader/extras/a.cpp", "<vector>", "loader/extras/a.cpp: its folder is not in the table"},
        Planted{"extras/a.cpp", "<vector>", "extras/a.cpp: its folder is not in the table"},
        Planted{"a.cpp", "<vector>", "a.cpp: its folder is not in the table"}));

}  // namespace
}  // namespace h5feed::test
