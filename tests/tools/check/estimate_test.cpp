// SPDX-License-Identifier: Apache-2.0
// How long `check` says that it takes, from what it measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "tools/check/estimate.hpp"
#include "tools/measure/decode_speed.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

// The sizes of the rounds, where a piece takes `each` and whatever comes first `once` on top.
std::vector<std::uint64_t> rounds_of(cli::PieceTimer& timer, double once, double each) {
  std::vector<std::uint64_t> rounds;
  while (timer.next() > 0) {
    rounds.push_back(timer.next());
    timer.add((rounds.size() == 1 ? once : 0) + each * static_cast<double>(timer.next()));
  }
  return rounds;
}

TEST(PieceTimer, leaves_out_what_is_paid_once) {
  // Opening takes 1.3 ms, each of 4 million chunks 11 µs: told from the first chunk alone it would be 5,500
  // s.
  cli::PieceTimer timer(4'194'304, 0.03);
  EXPECT_THAT(rounds_of(timer, 1.3e-3, 11e-6), ElementsAre(1, 1, 8, 64, 512, 4096));
  EXPECT_NEAR(timer.seconds_each() * 4'194'304, 46, 1);
}

TEST(PieceTimer, stops_where_pieces_are_large_or_few) {
  cli::PieceTimer large(1000, 0.03);
  EXPECT_THAT(rounds_of(large, 0, 2.0), ElementsAre(1)) << "one tells enough";
  EXPECT_DOUBLE_EQ(large.seconds_each(), 2.0);
  cli::PieceTimer few(20, 0.03);
  EXPECT_THAT(rounds_of(few, 1e-3, 1e-6), ElementsAre(1, 1, 8, 20));
  EXPECT_NEAR(few.seconds_each(), 1e-6, 1e-9);
  EXPECT_EQ(cli::PieceTimer(0, 0.03).next(), 0U);
}

TEST(TimeForecast, says_it_again_where_it_was_far_off) {
  cli::TimeForecast forecast(5500);
  EXPECT_EQ(forecast.revise(0.02, 1), std::nullopt) << "too early to tell";
  EXPECT_EQ(forecast.revise(0, 10), std::nullopt) << "nothing to tell from";
  EXPECT_THAT(forecast.revise(0.2, 10), Optional(50.0));
  EXPECT_EQ(forecast.revise(0.3, 18), std::nullopt) << "60 s are near enough to 50 s";
  EXPECT_THAT(forecast.revise(0.3, 60), Optional(200.0));
}

// 400 chunks of 256 KiB, of which one was ever written.
void write_sparse(const std::filesystem::path& path) {
  H5TestFile file(path);
  file.create(
      {.path = "x", .shape = {400, 262'144}, .chunk = {1, 262'144}, .filters = parse_filters("gzip:1", 1)});
  file.write_box("x", std::vector<std::uint64_t>{200, 0}, std::vector<std::uint64_t>{1, 262'144},
                 patterned_bytes(262'144));
}

TEST(CheckEstimate, counts_chunks_that_were_never_written_by_their_share) {
  const TempDir dir;
  write_sparse(dir / "a.h5");
  const auto file = H5File::open(dir / "a.h5");
  const auto reader = open_chunk_reader(file, file->describe("x"));
  EXPECT_DOUBLE_EQ(cli::written_share(*reader), 1.0 / 400);
  EXPECT_GT(cli::decode_seconds_per_byte(*reader, std::chrono::milliseconds(1)), 0);
}

TEST(CheckEstimate, gives_a_figure_for_each_dataset) {
  const TempDir dir;
  write_sparse(dir / "a.h5");
  const auto file = H5File::open(dir / "a.h5");
  const DatasetInfo info = file->describe("x");
  DatasetInfo small = info;
  small.shape.front() = 4;
  const std::vector<cli::CheckEntry> entries = {
      {.info = info, .chunks = 400}, {.info = small, .chunks = 4}, {.listed = {.path = "text"}}};
  const std::vector<double> seconds =
      cli::estimate_check(file, entries, {.jobs = 1, .memory_bytes = 64 << 20}, std::chrono::seconds(1));
  ASSERT_EQ(seconds.size(), 3U);
  EXPECT_GT(seconds[0], 0);
  EXPECT_NEAR(seconds[1], seconds[0] / 100, seconds[0] / 1e6) << "from the large one, by its bytes";
  EXPECT_EQ(seconds[2], 0);
}

}  // namespace
}  // namespace h5feed::test
