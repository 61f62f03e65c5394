// SPDX-License-Identifier: Apache-2.0
// h5feed generate: the same bytes for the same seed, content as ordered, nothing left of what was stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/storage/synthetic.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void generate(const TempDir& dir, const std::string& name, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"generate", name};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const ProgramResult result = run_program(dir.path(), arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
}

TEST(Generate, writes_the_same_bytes_for_the_same_seed) {
  const TempDir dir;
  const std::vector<std::string> options = {"--samples", "230", "--shape", "3,16,24", "--chunk", "20"};
  generate(dir, "a.h5", options);
  generate(dir, "b.h5", options);
  EXPECT_EQ(file_bytes(dir / "a.h5"), file_bytes(dir / "b.h5"));
  auto other = options;
  other.insert(other.end(), {"--seed", "2"});
  generate(dir, "c.h5", other);
  EXPECT_NE(file_bytes(dir / "a.h5"), file_bytes(dir / "c.h5"));
}

TEST(Generate, content_is_a_function_of_seed_and_sample_whatever_the_storage) {
  const TempDir dir;
  generate(dir, "a.h5", {"--samples", "230", "--shape", "3,16,24", "--chunk", "20"});
  generate(dir, "b.h5", {"--samples", "240", "--shape", "3,16,24", "--chunk", "none"});
  const auto shorter = read_through_libhdf5(dir / "a.h5", "images");
  auto longer = read_through_libhdf5(dir / "b.h5", "images");
  longer.resize(shorter.size());
  EXPECT_EQ(shorter, longer);
  const auto file = H5File::open(dir / "b.h5");
  EXPECT_EQ(file->describe("images").layout, StorageLayout::contiguous);
  EXPECT_EQ(file->describe("labels").layout, StorageLayout::contiguous);
}

TEST(Generate, says_as_json_what_it_wrote) {
  const TempDir dir;
  const ProgramResult result = run_program(
      dir.path(), {"generate", "a.h5", "--samples", "30", "--shape", "3,4,4", "--chunk", "7", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["out"], "a.h5");
  EXPECT_EQ(json["datasets"][0]["path"], "/images");
  EXPECT_EQ(json["datasets"][0]["shape"], nlohmann::json({30, 3, 4, 4}));
  EXPECT_EQ(json["datasets"][0]["chunk"], nlohmann::json({7, 3, 4, 4}));
  EXPECT_EQ(json["datasets"][0]["filter"], "gzip:4");
  EXPECT_EQ(json["datasets"][1]["path"], "/labels");
  EXPECT_FALSE(json.contains("skipped")) << "no images were read";
}

TEST(Generate, stores_labels_of_every_class_in_the_smallest_usual_type) {
  const TempDir dir;
  generate(dir, "a.h5", {"--samples", "3000", "--shape", "1,2,2", "--classes", "10", "--chunk", "50"});
  const DatasetInfo small = H5File::open(dir / "a.h5")->describe("labels");
  EXPECT_EQ(small.dtype, DType::u8);
  EXPECT_THAT(small.chunk_shape, ElementsAre(3000));
  std::set<int> seen;
  for (const std::byte label : read_through_libhdf5(dir / "a.h5", "labels"))
    seen.insert(std::to_integer<int>(label));
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));

  generate(dir, "b.h5", {"--samples", "3000", "--shape", "1,2,2", "--classes", "1000"});
  EXPECT_EQ(H5File::open(dir / "b.h5")->describe("labels").dtype, DType::i64);
  const auto bytes = read_through_libhdf5(dir / "b.h5", "labels");
  std::vector<std::int64_t> labels(3000);
  std::memcpy(labels.data(), bytes.data(), bytes.size());
  EXPECT_GE(*std::min_element(labels.begin(), labels.end()), 0);
  EXPECT_LT(*std::max_element(labels.begin(), labels.end()), 1000);
  EXPECT_GT(*std::max_element(labels.begin(), labels.end()), 255);
}

TEST(Generate, draws_tokens_from_the_range_asked) {
  const TempDir dir;
  generate(dir, "t.h5",
           {"--kind", "tokens", "--samples", "64", "--shape", "128", "--low", "-3", "--high", "5", "--dtype",
            "i16"});
  const DatasetInfo info = H5File::open(dir / "t.h5")->describe("tokens");
  EXPECT_EQ(info.shape_text(), "64×128 i16");
  const auto bytes = read_through_libhdf5(dir / "t.h5", "tokens");
  std::vector<std::int16_t> tokens(64 * 128);
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  EXPECT_EQ(std::set<int>(tokens.begin(), tokens.end()), (std::set<int>{-3, -2, -1, 0, 1, 2, 3, 4}));
}

TEST(Generate, leaves_nothing_when_interrupted) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TempDir dir;
    Program program(dir.path(),
                    {"generate", "big.h5", "--samples", "20000", "--chunk", "10", "--ratio", "4"});
    program.wait_for_stderr_line();  // it is writing now
    program.send(signal);
    const ProgramResult result = program.wait();
    EXPECT_EQ(result.exit_code, signal == SIGINT ? 1 : -1);
    EXPECT_EQ(result.signal, signal == SIGINT ? 0 : signal);
    EXPECT_THAT(result.err, ::testing::EndsWith("\ninterrupted\n"));
    EXPECT_THAT(names_in(dir.path()), IsEmpty());
  }
}

struct RatioCase {
  std::vector<std::uint64_t> shape;
  DType dtype;
  double ratio;
};

void PrintTo(const RatioCase& ratio_case, std::ostream* out) {
  *out << format_shape(ratio_case.shape) << ' ' << name_of(ratio_case.dtype) << " at " << ratio_case.ratio;
}

class Ratio : public ::testing::TestWithParam<RatioCase> {};

TEST_P(Ratio, is_reached_within_a_tenth) {
  const auto& [shape, dtype, ratio] = GetParam();
  const cli::SyntheticImages images(5, shape, dtype, 10, ratio);
  std::size_t sample_bytes = size_of(dtype);
  for (const std::uint64_t extent : shape) sample_bytes *= extent;
  std::vector<std::byte> chunk(sample_bytes * std::max<std::size_t>(1, 4'000'000 / sample_bytes));
  for (std::size_t i = 0; i < chunk.size() / sample_bytes; ++i) {
    images.fill(i, std::span(chunk).subspan(i * sample_bytes, sample_bytes));
  }
  const FilterPipeline gzip(parse_filters("gzip:4", size_of(dtype)), chunk.size(), size_of(dtype));
  const double reached = static_cast<double>(chunk.size()) / static_cast<double>(gzip.encode(chunk).size());
  EXPECT_NEAR(reached, ratio, 0.1 * ratio);
}

INSTANTIATE_TEST_SUITE_P(
    Generate, Ratio,
    ::testing::Values(RatioCase{{3, 224, 224}, DType::u8, 1.5}, RatioCase{{3, 224, 224}, DType::u8, 1.1},
                      RatioCase{{3, 224, 224}, DType::u8, 4.0}, RatioCase{{64, 64, 3}, DType::u8, 2.0},
                      RatioCase{{28, 28}, DType::u8, 1.5}, RatioCase{{28, 28}, DType::u8, 3.0},
                      RatioCase{{3, 64, 64}, DType::u16, 1.5}, RatioCase{{3, 64, 64}, DType::f32, 1.5},
                      RatioCase{{3, 32, 32}, DType::f32, 4.0}));

}  // namespace
}  // namespace h5feed::test
