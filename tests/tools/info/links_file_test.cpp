// SPDX-License-Identifier: Apache-2.0
// What the program says of a file whose datasets are links into other files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(LinkedFiles, are_named_by_commands_that_look_at_one_file) {
  const TempDir dir;
  {
    H5TestFile part(dir / "part.h5");
    part.create({.path = "images", .shape = {8, 3, 8, 6}, .chunk = {4, 3, 8, 6}});
    part.write("images", patterned_bytes(8 * 3 * 8 * 6));
    const H5TestFile master(dir / "master.h5");
    require(H5Lcreate_external("part.h5", "/images", master.id(), "data", H5P_DEFAULT, H5P_DEFAULT), "data");
  }
  const ProgramResult info = run_program(dir.path(), {"info", "master.h5"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  EXPECT_THAT(info.out, HasSubstr("links into other files, which loaders follow and info does not: "
                                  "/data to part.h5:/images\n"));
  const auto json = nlohmann::json::parse(run_program(dir.path(), {"info", "master.h5", "--json"}).out);
  EXPECT_EQ(json["links"], nlohmann::json::parse(
                               R"([{"path": "/data", "other_file": "part.h5", "other_path": "/images"}])"));
  const ProgramResult check = run_program(dir.path(), {"check", "master.h5"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.err, HasSubstr("master.h5: links into other files are not followed: "
                                   "/data to part.h5:/images; check these files, too\n"));
  const std::string none =
      "master.h5: no dataset looks like images; it has no datasets, and links into other files: "
      "/data to part.h5:/images";
  const ProgramResult repack = run_program(dir.path(), {"repack", "master.h5", "out.h5", "--chunk", "4"});
  EXPECT_EQ(repack.exit_code, 1);
  EXPECT_THAT(repack.err, HasSubstr(none + ". Name those to repack with --dataset"));
  const ProgramResult bench = run_program(dir.path(), {"bench", "master.h5"});
  EXPECT_EQ(bench.exit_code, 1);
  EXPECT_THAT(bench.err, HasSubstr(none));
}

}  // namespace
}  // namespace h5feed::test
