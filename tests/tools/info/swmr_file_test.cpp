// SPDX-License-Identifier: Apache-2.0
// What the program says of a file that a SWMR writer has open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/programs/swmr_writer.hpp"

namespace h5feed::test {
namespace {

TEST(SwmrFiles, are_shown_and_checked_and_not_repacked) {
  const TempDir dir;
  SwmrWriter writer(dir / "live.h5", {.filters = {gzip_filter(1)}});
  writer.append(20);
  const ProgramResult info = run_program(dir.path(), {"info", "live.h5"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  EXPECT_THAT(info.out, testing::HasSubstr("\na SWMR writer has it open: "));
  EXPECT_EQ(nlohmann::json::parse(run_program(dir.path(), {"info", "live.h5", "--json"}).out)["swmr_writer"],
            true);
  const ProgramResult check = run_program(dir.path(), {"check", "live.h5"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.out, testing::HasSubstr("live.h5: datasets: 2 equal; 4 of 4 chunks compared"));
  EXPECT_THAT(check.err, testing::HasSubstr("only the rows that are complete now are checked"));
  const ProgramResult repack =
      run_program(dir.path(), {"repack", "live.h5", "out.h5", "--chunk", "4", "--dataset", "x"});
  EXPECT_EQ(repack.exit_code, 1);
  EXPECT_EQ(repack.err,
            "live.h5: a SWMR writer has it open; repack it once the writer has closed it; if none runs: "
            "h5clear -s --increment=0 live.h5\n");
  writer.close();
  EXPECT_EQ(nlohmann::json::parse(run_program(dir.path(), {"info", "live.h5", "--json"}).out)["swmr_writer"],
            false);
}

TEST(SwmrFiles, whose_writer_was_killed_over_the_index_are_checked_up_to_there) {
  const TempDir dir;
  SwmrWriter writer(dir / "live.h5", {.filters = {gzip_filter(1)}});
  writer.append_to_x(900);
  writer.kill();
  tear_index(dir / "live.h5", "EADB");
  const ProgramResult check = run_program(dir.path(), {"check", "live.h5", "--data", "x"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.err,
              testing::ContainsRegex("live.h5:/x: [0-9]+ of 900 rows are checked: the SWMR writer"));
}

}  // namespace
}  // namespace h5feed::test
