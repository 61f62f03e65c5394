// SPDX-License-Identifier: Apache-2.0
// Chunks for windows: what `repack --chunk auto --window` writes, and what the loader makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "support/files/episode_files.hpp"
#include "support/loaders/decode_bound.hpp"
#include "support/programs/run_program.hpp"
#include "tools/storage/window_plan.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class RepackWindowsTest : public EpisodeTest {
 protected:
  void write(std::uint64_t rows) {
    H5TestFile file(dir_ / "a.h5");
    put_joined(file, "frames", make_episodes({rows}, 64, 1), {rows, 64});
  }

  ProgramResult repack(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"repack", "a.h5", "b.h5", "--force", "--dataset", "frames"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(dir_.path(), arguments);
  }

  // Checks that a loader of these windows decodes the chunks of b.h5 at most 1.2 times.
  void check_decodes(const std::vector<std::int64_t>& window, const char* shuffle,
                     std::uint64_t cache_bytes) {
    DatasetOptions options{.files = {dir_ / "b.h5"}, .data = "frames", .input_layout = InputLayout::none};
    options.window = window;
    const Dataset dataset = Dataset::open(options);
    const DataLoaderOptions loading{
        .batch_size = 8, .shuffle = shuffle, .seed = 1, .num_workers = 2, .cache_bytes = cache_bytes};
    const PlanReport report = plan(dataset, loading);
    EXPECT_LE(report.cache_bytes_decode_once, cache_bytes);
    EXPECT_LE(*report.decodes_per_chunk, cli::kWindowDecodes);
    DataLoader loader(dataset, loading);
    while (loader.next()) {
    }
    EXPECT_LE(static_cast<double>(loader.stats().chunk_loads),
              most_decodes(loading.num_workers) * static_cast<double>(report.chunks));
  }
};

TEST_F(RepackWindowsTest, writes_chunks_that_windows_decode_about_once_in_the_cache_at_hand) {
  write(3000);
  std::uint64_t before = 0;
  for (const auto& [cache, bytes] : {std::pair("32KiB", std::uint64_t{32} << 10),
                                     {"64KiB", std::uint64_t{64} << 10},
                                     {"200KiB", std::uint64_t{200} << 10}}) {
    const ProgramResult result =
        repack({"--chunk", "auto", "--window", "-2,-1,0,1", "--shuffle", "chunk:2", "--cache-bytes", cache});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("windows of 4 rows with shuffle=chunk:2 decode each chunk 1.1"));
    check_decodes({-2, -1, 0, 1}, "chunk:2", bytes);
    DatasetOptions options{.files = {dir_ / "b.h5"}, .data = "frames", .input_layout = InputLayout::none};
    const std::uint64_t chunk =
        DatasetAccess::state(Dataset::open(options))->data.reader->chunk_shape().front();
    EXPECT_GT(chunk, before) << "a larger cache allows larger chunks";
    before = chunk;
  }
}

TEST_F(RepackWindowsTest, predicts_what_the_plan_of_a_loader_says) {
  struct Case {
    std::uint64_t chunk;
    std::vector<std::int64_t> window;
    const char* shuffle;
  };
  for (const Case& one : std::vector<Case>{{1, {-2, -1, 0, 1, 2, 3, 4, 5, 6}, "chunk:3"},
                                           {5, {-7, 0}, "chunk:2"},
                                           {8, {-16, -8, 0, 4}, "chunk:1"},
                                           {3, {0, 1, 2}, "sequential"}}) {
    const std::uint64_t rows = 2000;
    {
      H5TestFile file(dir_ / "a.h5");
      put_joined(file, "frames", make_episodes({rows}, 64, 1), {one.chunk, 64});
    }
    DatasetOptions options{.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::none};
    options.window = one.window;
    const Dataset dataset = Dataset::open(options);
    const cli::WindowUse use{one.window, Shuffle(one.shuffle), 8, std::uint64_t{1} << 30};
    const cli::WindowCost cost = cli::window_cost({rows, 128}, one.chunk, use);
    const PlanReport report =
        plan(dataset, {.batch_size = 8, .shuffle = one.shuffle, .cache_bytes = cost.needed_bytes});
    EXPECT_LE(report.cache_bytes_decode_once, cost.needed_bytes) << one.shuffle;
    EXPECT_NEAR(*report.decodes_per_chunk, cost.decodes_per_chunk, 0.02) << one.shuffle;
  }
}

TEST_F(RepackWindowsTest, says_what_to_change_where_no_chunks_suffice) {
  write(3000);
  const ProgramResult result =
      repack({"--chunk", "auto", "--window", "-2,-1,0,1", "--shuffle", "chunk:4", "--cache-bytes", "20KiB"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("/frames: no chunks are decoded 1.2 times at most by windows of 4 rows with "
                        "--shuffle chunk:4 and a cache of 20 KiB; use --shuffle chunk:"));
  const std::string cache = result.err.substr(result.err.find("or a cache of ") + 14);
  EXPECT_EQ(
      repack({"--chunk", "auto", "--window", "-2,-1,0,1", "--shuffle", "chunk:4", "--cache-bytes", "44KiB"})
          .exit_code,
      0)
      << cache;
}

TEST_F(RepackWindowsTest, refuses_options_that_do_not_go_together) {
  write(100);
  EXPECT_EQ(repack({"--chunk", "10", "--window", "0,1"}).err,
            "--window chooses the chunks of --chunk auto; add that, or leave --window out\n");
  EXPECT_EQ(repack({"--chunk", "auto", "--cache-bytes", "1MiB"}).err,
            "--shuffle and --cache-bytes say how windows are read; add --window\n");
  EXPECT_EQ(repack({"--chunk", "auto", "--window", "1,0"}).err,
            "--window \"1,0\": offsets must ascend, each once, such as -2,-1,0,1\n");
  EXPECT_EQ(repack({"--chunk", "auto", "--window", "a"}).exit_code, 2);
}

}  // namespace
}  // namespace h5feed::test
