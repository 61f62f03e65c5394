// SPDX-License-Identifier: Apache-2.0
// h5feed bench: cold and warm rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/bench_runs.hpp"
#include "support/programs/run_program.hpp"
#include "tools/measure/page_cache.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Pages of a file in memory cannot be dropped, and the temporary directory may be such a place.
bool lies_in_memory(const std::filesystem::path& path) {
  struct statfs filesystem {};
  return ::statfs(path.c_str(), &filesystem) == 0 &&
         static_cast<unsigned long>(filesystem.f_type) == TMPFS_MAGIC;
}

void expect_refused_for_memory(const std::filesystem::path& directory) {
  const ProgramResult result = run_program(directory, {"bench", "a.h5", "--cold"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "a.h5: cannot be measured cold: 100 % of its pages stay in memory: its file system is in memory "
            "(tmpfs); measure a copy on a disk\n");
}

TEST(Bench, drops_pages_before_cold_passes_and_compares_with_bare_reads) {
  const TempDir dir;
  write_samples(dir, {"none"});
  if (lies_in_memory(dir.path())) {
    expect_refused_for_memory(dir.path());
    return;
  }
  for (const auto& [shuffle, limit] :
       {std::pair{"sequential", "sequential"}, {"chunk:1", "sequential"}, {"full", "random"}}) {
    const Json json =
        bench_json(dir, {"--cold", "--num-workers", "0,2", "--runs", "2", "--shuffle", shuffle});
    EXPECT_EQ(json.at("settings").at("page_cache"), "cold");
    EXPECT_GT(json.at("limits").at("cold_sequential_bytes_per_s"), 0);
    EXPECT_GT(json.at("limits").at("cold_random_bytes_per_s"), 0);
    EXPECT_EQ(json.at("limits").at("decode_bytes_per_s"), nullptr);
    ASSERT_EQ(json.at("rows").size(), 2U);
    for (const Json& row : json.at("rows")) {
      EXPECT_EQ(row.at("page_cache"), "cold");
      EXPECT_LE(row.at("resident_share"), 0.01);
      EXPECT_EQ(row.at("cold_limit"), limit);
      EXPECT_GT(row.at("cold_limit_bytes_per_s"), 0);
      EXPECT_GT(row.at("share_of_cold_limit"), 0);
      EXPECT_EQ(row.at("share_of_limit"), nullptr);
      EXPECT_EQ(row.at("samples_per_s_cached"), nullptr) << "an epoch from the cache reads no page";
    }
  }
}

TEST(Bench, cold_rows_of_compressed_data_read_what_is_stored) {
  const TempDir dir;
  write_samples(dir);
  if (lies_in_memory(dir.path())) {
    expect_refused_for_memory(dir.path());
    return;
  }
  const Json row = bench_json(dir, {"--cold", "--num-workers", "1"}).at("rows")[0];
  EXPECT_GT(row.at("share_of_cold_limit"), 0);
  EXPECT_GE(row.at("read_amplification"), 1) << "more where the time ends within an epoch";
}

TEST(Bench, measures_both_kinds_of_rows_side_by_side) {
  const TempDir dir;
  write_samples(dir, {"none"});
  if (lies_in_memory(dir.path())) {
    expect_refused_for_memory(dir.path());
    return;
  }
  const ProgramResult result =
      run_program(dir.path(), {"bench", "a.h5", "--cold", "--warm", "--num-workers", "1", "--time-budget",
                               "200ms", "--export-json", "r.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              ::testing::EndsWith(": 2 rows of about 0.2 s, 0.4 s in all; each pass starts with an "
                                  "empty cache and reads warm pages, then cold ones\n"));
  EXPECT_THAT(result.out, HasSubstr("\nbest with warm pages: num_workers=1 ("));
  EXPECT_THAT(result.out, HasSubstr("\nbest with cold pages: num_workers=1 ("));
  const auto bytes = file_bytes(dir / "r.json");
  const Json json = Json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  EXPECT_EQ(json.at("settings").at("page_cache"), "both");
  EXPECT_EQ(json.at("rows")[0].at("page_cache"), "warm");
  EXPECT_EQ(json.at("rows")[1].at("page_cache"), "cold");
  EXPECT_GT(json.at("limits").at("decode_bytes_per_s"), 0);
  EXPECT_GT(json.at("limits").at("cold_sequential_bytes_per_s"), 0);
}

TEST(Bench, refuses_cold_rows_where_the_file_lies_in_memory) {
  if (!lies_in_memory("/dev/shm")) GTEST_SKIP() << "/dev/shm is not in memory";
  const TempDir dir("/dev/shm");
  H5TestFile(dir / "a.h5").create({.path = "images", .shape = {10, 4, 4}, .early_allocation = true});
  expect_refused_for_memory(dir.path());
}

TEST(Bench, refuses_cold_rows_of_values_in_other_files) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "images", .shape = {64, 4, 4}, .external_file = (dir / "raw").string()});
    file.write("images", patterned_bytes(64 * 16));
  }
  const ProgramResult result = run_program(dir.path(), {"bench", "a.h5", "--cold", "--time-budget", "1"});
  if (lies_in_memory(dir.path())) return expect_refused_for_memory(dir.path());
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.err,
              ::testing::EndsWith(
                  "--cold drops the pages of a.h5, and values of a.h5:/images are in other files; measure a "
                  "copy by h5feed repack, or leave --cold out and set --warm\n"));
}

TEST(Bench, warm_rows_begin_with_the_file_in_memory) {
  const TempDir dir;
  write_samples(dir);
  if (!lies_in_memory(dir.path())) {
    EXPECT_LE(cli::drop_pages(dir / "a.h5"), cli::kColdEnough);
  }
  const Json json = bench_json(dir, {"--num-workers", "1"});
  EXPECT_EQ(json.at("settings").at("page_cache"), "warm");
  EXPECT_EQ(json.at("rows")[0].at("page_cache"), "warm");
  EXPECT_EQ(json.at("rows")[0].at("resident_share"), 1);
  EXPECT_EQ(json.at("rows")[0].at("cold_limit"), nullptr);
  EXPECT_EQ(json.at("limits").at("cold_sequential_bytes_per_s"), nullptr);
}

}  // namespace
}  // namespace h5feed::test
