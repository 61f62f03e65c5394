#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "support/include_rules.hpp"

namespace h5feed::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(IncludeDirection, holds_in_the_source_tree) {
  EXPECT_THAT(include_violations(H5FEED_SOURCE_DIR), IsEmpty());
}

// One file with one include in an otherwise empty tree.
struct Planted {
  std::string file;
  std::string include;
  std::string complaint;  // empty: allowed
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.file << " " << planted.include; }

class PlantedInclude : public ::testing::TestWithParam<Planted> {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("include_rules_") + info->name();
    std::replace(name.begin(), name.end(), '/', '_');
    root_ = fs::path(::testing::TempDir()) / name;
    fs::remove_all(root_);
    const fs::path path = root_ / GetParam().file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "// A comment.\n#include " << GetParam().include << "\n";
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
};

TEST_P(PlantedInclude, is_judged_by_the_table) {
  const std::vector<std::string> violations = include_violations(root_);
  if (GetParam().complaint.empty()) {
    EXPECT_THAT(violations, IsEmpty());
  } else {
    EXPECT_THAT(violations, ElementsAre(HasSubstr(GetParam().complaint)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlantedInclude,
    ::testing::Values(
        Planted{"loader/cache/a.cpp", "\"base/mutex.hpp\"", ""},
        Planted{"loader/cache/a.cpp", "\"plan/epoch_plan.hpp\"", "loader/cache/a.cpp:2: includes \"plan/"},
        Planted{"loader/base/a.hpp", "\"store/filters.hpp\"", "loader/base must not use store"},
        Planted{"loader/store/a.cpp", "\"flow/ticket_ring.hpp\"", "loader/store must not use flow"},
        Planted{"loader/include/h5feed/a.hpp", "\"base/mutex.hpp\"", "must not use base"},
        Planted{"loader/flow/a.cpp", "\"tools/cli.hpp\"", "loader/flow must not use tools"},
        Planted{"loader/flow/a.cpp", "\"batch/normalize.hpp\"", ""},
        Planted{"loader/flow/a.cpp", "\"ticket_ring.hpp\"", "without its folder"},
        Planted{"loader/flow/a.cpp", "<tbb/concurrent_queue.h>", ""},
        Planted{"loader/cache/a.cpp", "<tbb/concurrent_queue.h>", "TBB has no place there"},
        Planted{"loader/store/a.cpp", "<H5Cpp.h>", ""},
        Planted{"loader/dataset/a.cpp", "<H5Ppublic.h>", "HDF5 has no place there"},
        Planted{"loader/dataset/a.cpp", "  <hdf5.h>", "HDF5 has no place there"},
        Planted{"loader/images/opencv_images.cpp", "<opencv2/imgcodecs.hpp>", ""},
        Planted{"loader/images/image_decoder.cpp", "<opencv2/core.hpp>", "OpenCV has no place there"},
        Planted{"loader/images/opencv_images.cpp", "<jpeglib.h>", "libjpeg has no place there"},
        Planted{"tools/pack_decode.cpp", "<opencv2/imgcodecs.hpp>", "OpenCV has no place there"},
        Planted{"loader/include/h5feed/torch.hpp", "<torch/types.h>", ""},
        Planted{"cuda/include/h5feed/torch_cuda.hpp", "<ATen/ATen.h>", ""},
        Planted{"cuda/cuda_device.cpp", "<ATen/ATen.h>", "Torch has no place there"},
        Planted{"tools/bench.cpp", "<torch/torch.h>", "Torch has no place there"},
        Planted{"loader/batch/a.cpp", "<cuda_runtime.h>", "CUDA has no place there"},
        Planted{"cuda/a.cu", "\"batch/normalize.hpp\"", ""},
        Planted{"cuda/a.cu", "\"tools/cli.hpp\"", "cuda must not use tools"},
        Planted{"cuda/include/h5feed/gpu.hpp", "\"cuda/check.hpp\"", "must not use cuda"},
        Planted{"examples/a.cpp", "\"flow/prefetcher.hpp\"", "examples must not use flow"},
        Planted{"loader/extras/a.cpp", "<vector>", "loader/extras/a.cpp: its folder is not in the table"},
        Planted{"extras/a.cpp", "<vector>", "extras/a.cpp: its folder is not in the table"},
        Planted{"a.cpp", "<vector>", "a.cpp: its folder is not in the table"}));

}  // namespace
}  // namespace h5feed::testing
