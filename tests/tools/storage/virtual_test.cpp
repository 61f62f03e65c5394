// SPDX-License-Identifier: Apache-2.0
// The program on virtual datasets whose sources have chunks of different heights, against libhdf5.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/files/virtual_files.hpp"
#include "support/programs/run_program.hpp"
#include "tools/storage/channel_stats.hpp"
#include "tools/storage/chunk_walk.hpp"
#include "tools/tune/sample.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

const std::vector<std::string> kKinds = {"heights", "gaps",    "columns",   "nested",
                                         "parts",   "shorter", "big_endian"};

class VirtualOfHeights : public testing::TestWithParam<std::string> {
 protected:
  // Writes the virtual dataset "x" of w.h5. The heights of the sources' chunks do not divide their rows.
  void SetUp() override {
    const std::string kind = GetParam();
    const hid_t type = kind == "big_endian" ? H5T_STD_U16BE : H5T_STD_U16LE;
    files_.source("a.h5", {10, 12}, {7, 12}, type);
    files_.source("b.h5", {10, 12}, {4, 5}, type);
    const auto part = [](const char* file, Selection to, Selection from = {}) {
      return VirtualPiece{file, "x", {10, 12}, std::move(to), std::move(from)};
    };
    const SelectedIndices all = run(0, 12);
    if (kind == "heights" || kind == "nested" || kind == "big_endian") {
      files_.make("w.h5", {20, 12}, {part("a.h5", {run(0, 10), all}), part("b.h5", {run(10, 10), all})},
                  type);
    } else if (kind == "gaps") {
      files_.make("w.h5", {31, 12}, {part("a.h5", {run(3, 10), all}), part("b.h5", {run(20, 10), all})});
    } else if (kind == "columns") {
      const Selection four = {run(0, 10), run(3, 4)};
      files_.make(
          "w.h5", {20, 4},
          {part("a.h5", {run(0, 10), run(0, 4)}, four), part("b.h5", {run(10, 10), run(0, 4)}, four)});
    } else if (kind == "parts") {
      files_.make("w.h5", {9, 12},
                  {part("b.h5", {run(0, 4), all}, {run(5, 4), all}),
                   part("a.h5", {run(4, 5), all}, {run(2, 5), all})});
    } else {
      files_.make("w.h5", {12, 12},
                  {part("a.h5", {run(0, 2), all}, {run(8, 2), all}), part("b.h5", {run(2, 10), all})});
    }
    if (kind == "nested") {
      std::filesystem::rename(file("w.h5"), file("inner.h5"));
      files_.make("w.h5", {17, 12}, {{"inner.h5", "x", {20, 12}, {run(0, 17), all}, {run(3, 17), all}}});
    }
    values_ = numbers_of(read_through_libhdf5(file("w.h5"), "x"));
  }

  std::filesystem::path file(const std::string& name) const { return files_.folder() / name; }
  std::shared_ptr<const ChunkReader> open() const {
    const auto opened = H5File::open(file("w.h5"));
    return open_chunk_reader(opened, opened->describe("x"));
  }

  VirtualFiles files_;
  std::vector<std::uint16_t> values_;
};

TEST_P(VirtualOfHeights, have_a_grid_with_the_same_values) {
  const auto reader = open();
  const auto even = on_grid(reader);
  EXPECT_FALSE(reader->regular());
  EXPECT_TRUE(even->regular());
  EXPECT_EQ(numbers_of(read_all(*even, 2).span()), values_);
  EXPECT_EQ(on_grid(even), even);
  EXPECT_THROW(cli::ChunkWalk(*reader, 100), std::invalid_argument);
  EXPECT_THROW(cli::channel_stats(*reader, std::nullopt, {}, [](std::uint64_t) {}), std::invalid_argument);
  const auto late = Clock::now() + std::chrono::hours(1);
  EXPECT_THROW(cli::sample_rows(*reader, 4, late), std::invalid_argument);
  EXPECT_EQ(numbers_of(cli::sample_rows(*even, values_.size(), late).values.span()), values_);
}

TEST_P(VirtualOfHeights, are_repacked_to_the_same_values) {
  for (const std::string rows : {"1", "4", "5", "7", "9"}) {
    const std::string out = "rows" + rows + ".h5";
    std::vector<std::string> words = {"repack", "w.h5", out, "--dataset", "x", "--chunk", rows};
    if (rows == "4") words.emplace_back("--no-verify");
    const ProgramResult result = run_program(files_.folder(), words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("virtual → chunks"));
    EXPECT_EQ(numbers_of(read_through_libhdf5(file(out), "x")), values_) << rows;
  }
}

TEST_P(VirtualOfHeights, are_checked_whole_and_found_equal) {
  const ProgramResult result = run_program(files_.folder(), {"check", "w.h5"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json dataset =
      Json::parse(run_program(files_.folder(), {"check", "w.h5", "--json"}).out).at("datasets")[0];
  EXPECT_EQ(dataset.at("result"), "equal");
  EXPECT_EQ(dataset.at("share_compared"), 1) << dataset;
  EXPECT_EQ(run_program(files_.folder(), {"check", "w.h5", "--sample", "50%"}).exit_code, 0);
}

// What libhdf5 lacks depends on the machine's plugins; healthy data is no failure either way.
TEST_P(VirtualOfHeights, are_read_alone_where_libhdf5_lacks_a_filter_of_a_source) {
  const ProgramResult repacked =
      run_program(files_.folder(), {"repack", "a.h5", "zstd.h5", "--dataset", "x", "--filter", "zstd"});
  ASSERT_EQ(repacked.exit_code, 0) << repacked.err;
  std::filesystem::rename(file("zstd.h5"), file("a.h5"));
  const bool both = libhdf5_has_filter(filter_id::kZstd);
  const ProgramResult result = run_program(files_.folder(), {"check", "w.h5", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json dataset = Json::parse(result.out).at("datasets")[0];
  EXPECT_EQ(dataset.at("result"), both ? "equal" : "h5feed only, not compared");
  EXPECT_EQ(dataset.at("not_compared"), both ? Json() : Json("libhdf5 has no filter 32015 (zstd)"));
  EXPECT_TRUE(dataset.at("sha256").is_string());
}

TEST_P(VirtualOfHeights, have_the_statistics_of_their_values) {
  const ProgramResult result = run_program(
      files_.folder(), {"info", "w.h5", "--stats", "--data", "x", "--input-layout", "none", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double mean =
      std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
  EXPECT_NEAR(Json::parse(result.out).at("datasets")[0].at("stats").at("mean")[0].get<double>(), mean, 1e-6);
}

TEST(CompactOfOtherOrder, is_repacked_to_the_same_values) {
  const TempDir dir;
  const std::vector<std::byte> values = patterned_bytes(2 * 30);
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .file_type = H5T_STD_U16BE, .shape = {30}, .compact = true});
    file.write("x", values);
  }
  const ProgramResult result =
      run_program(dir.path(), {"repack", "a.h5", "b.h5", "--dataset", "x", "--chunk", "7", "--no-verify"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "x"), values);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VirtualOfHeights, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace h5feed::test
