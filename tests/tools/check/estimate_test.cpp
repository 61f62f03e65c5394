// SPDX-License-Identifier: Apache-2.0
// How long `check` says that it takes, from what it measured, and which chunks a sample has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/check/dataset.hpp"
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
    timer.add((rounds.size() == 1 ? once : 0) + each * static_cast<double>(timer.next()), timer.next());
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

TEST(PieceTimer, counts_only_what_was_done_before_the_time_was_over) {
  cli::PieceTimer timer(1000, 0.03);
  timer.add(0.5, 1);
  timer.add(0.01, 1);
  ASSERT_EQ(timer.next(), 8U);
  timer.add(0.04, 2);
  EXPECT_DOUBLE_EQ(timer.seconds_each(), 0.02);
  EXPECT_EQ(timer.next(), 0U) << "a round that was cut short is the last one";
  cli::PieceTimer late(1000, 0.03);
  late.add(1e-6, 0);
  EXPECT_EQ(late.seconds_each(), 0) << "nothing was done in that time";
  EXPECT_EQ(late.next(), 0U);
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
  cli::CheckedFiles files(H5File::open(dir / "a.h5"));
  const DatasetInfo info = files.first()->describe("x");
  DatasetInfo small = info;
  small.shape.front() = 4;
  const std::vector<cli::CheckEntry> entries = {{.file = dir / "a.h5", .info = info, .chunks = 400},
                                                {.file = dir / "a.h5", .info = small, .chunks = 4},
                                                {.file = dir / "a.h5", .listed = {.path = "text"}}};
  const cli::CheckEstimate estimate =
      cli::estimate_check(files, entries, {.jobs = 1, .memory_bytes = 64 << 20}, std::chrono::seconds(1));
  EXPECT_TRUE(estimate.measured);
  const std::vector<double>& seconds = estimate.seconds;
  ASSERT_EQ(seconds.size(), 3U);
  EXPECT_GT(seconds[0], 0);
  EXPECT_NEAR(seconds[1], seconds[0] / 100, seconds[0] / 1e6) << "from the large one, by its bytes";
  EXPECT_EQ(seconds[2], 0);
}

TEST(CheckEstimate, is_no_figure_where_the_time_was_over_before_the_first_chunk) {
  const TempDir dir;
  write_sparse(dir / "a.h5");
  cli::CheckedFiles files(H5File::open(dir / "a.h5"));
  const std::vector<cli::CheckEntry> large = {
      {.file = dir / "a.h5", .info = files.first()->describe("x"), .chunks = 400}};
  const cli::CheckSettings late{.jobs = 1,
                                .memory_bytes = 64 << 20,
                                .deadline = std::chrono::steady_clock::now() - std::chrono::hours(1)};
  const cli::CheckEstimate estimate = cli::estimate_check(files, large, late, std::chrono::seconds(1));
  EXPECT_FALSE(estimate.measured);
  EXPECT_EQ(estimate.seconds.size(), 1U);
}

std::vector<std::uint64_t> chunks_of(const cli::ChunkSample& sample) {
  std::vector<std::uint64_t> chunks;
  for (std::uint64_t i = 0; i < sample.size(); ++i) chunks.push_back(sample[i]);
  return chunks;
}

TEST(ChunkSample, is_spread_over_the_dataset) {
  EXPECT_THAT(chunks_of({0, 0.5}), ElementsAre());
  EXPECT_THAT(chunks_of({3, 1}), ElementsAre(0, 1, 2));
  EXPECT_EQ(cli::ChunkSample(1'000'000, 1e-9).size(), 1U);
  const std::vector<std::uint64_t> chunks = chunks_of({103, 0.1});
  ASSERT_EQ(chunks.size(), 11U);
  std::vector<std::uint64_t> steps;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_GE(chunks[i], i * 9);
    EXPECT_LT(chunks[i], (i + 1) * 10);
    if (i > 0) steps.push_back(chunks[i] - chunks[i - 1]);
  }
  EXPECT_THAT(steps, ::testing::Contains(::testing::Ne(steps.front())))
      << "a fixed step would miss what repeats";
  EXPECT_EQ(chunks_of({103, 0.1}), chunks);
}

TEST(ChunkSample, of_very_many_chunks_takes_no_memory) {
  constexpr std::uint64_t kMany = std::uint64_t{1'000} << 37;
  const cli::ChunkSample sample(kMany, 0.01);
  EXPECT_NEAR(static_cast<double>(sample.size()), static_cast<double>(kMany) / 100, 1);
  EXPECT_LT(sample[0], 101U);
  EXPECT_GE(sample[sample.size() - 1], kMany - 101);
  EXPECT_LT(sample[sample.size() - 1], kMany);
}

TEST(Check, ends_a_sample_of_very_many_chunks_with_its_time) {
  const TempDir dir;
  H5TestFile(dir / "a.h5").create({.path = "x", .shape = {1000, std::uint64_t{1} << 39}, .chunk = {1, 4}});
  // Longer again where the machine is too slow to reach a chunk in that time.
  ProgramResult result;
  for (int seconds = 2; seconds < 300; seconds *= 2) {
    result = run_program(dir.path(), {"check", "a.h5", "--json", "--sample", "1%", "--time-budget",
                                      std::to_string(seconds) + "s"});
    if (result.exit_code == 0) break;
  }
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(result.peak_rss_bytes, std::uint64_t{1} << 30) << "the list of the sample would take 10 TiB";
}

}  // namespace
}  // namespace h5feed::test
