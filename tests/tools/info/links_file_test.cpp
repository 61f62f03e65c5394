// SPDX-License-Identifier: Apache-2.0
// What the program says of a file whose datasets are links into other files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

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
  EXPECT_THAT(info.out, HasSubstr("links into other files, which loaders and check follow and info does not: "
                                  "/data to part.h5:/images\n"));
  const auto json = nlohmann::json::parse(run_program(dir.path(), {"info", "master.h5", "--json"}).out);
  EXPECT_EQ(json["links"], nlohmann::json::parse(
                               R"([{"path": "/data", "other_file": "part.h5", "other_path": "/images"}])"));
  const ProgramResult check = run_program(dir.path(), {"check", "master.h5"});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(check.err,
              HasSubstr("checking master.h5 and 1 file that its links lead into: 1 numeric dataset"));
  EXPECT_THAT(check.out, HasSubstr("\npart.h5:/images  8×3×8×6"));
  EXPECT_THAT(check.out, HasSubstr("\nmaster.h5: datasets: 1 equal; 2 of 2 chunks compared"));
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

TEST(LinkedFiles, are_checked_each_dataset_once) {
  const TempDir dir;
  for (const char* const name : {"a.h5", "b.h5"}) {
    H5TestFile part(dir / name);
    part.create({.path = "run/x", .shape = {8, 6}, .chunk = {4, 6}});
    part.create({.path = "run/deep/y", .shape = {4}, .chunk = {4}});
    part.create({.path = "other", .shape = {4}, .chunk = {4}});
    for (const char* const path : {"run/x", "run/deep/y"})
      part.write(path, patterned_bytes(path[4] == 'x' ? 48 : 4));
    // The files lead into each other, in a circle.
    require(H5Lcreate_external(name[0] == 'a' ? "b.h5" : "a.h5", "/run", part.id(), "run/back", H5P_DEFAULT,
                               H5P_DEFAULT),
            name);
    require(H5Lcreate_soft("/run/deep", part.id(), "nickname", H5P_DEFAULT, H5P_DEFAULT), name);
  }
  {
    const H5TestFile master(dir / "master.h5");
    for (const auto& [file, path, name] :
         {std::tuple("a.h5", "/run", "group"), std::tuple("a.h5", "run/x", "dataset"),
          std::tuple("a.h5", "/nickname/y", "by_a_soft_link"),
          std::tuple("a.h5", "/nickname", "group_by_a_soft_link"), std::tuple("missing.h5", "/x", "nowhere"),
          std::tuple("./a.h5", "/run", "spelled_otherwise"),
          std::tuple("link.h5", "/run", "in_a_symbolic_link")})
      require(H5Lcreate_external(file, path, master.id(), name, H5P_DEFAULT, H5P_DEFAULT), name);
  }
  std::filesystem::create_symlink("a.h5", dir / "link.h5");
  const ProgramResult check = run_program(dir.path(), {"check", "master.h5", "--json"});
  EXPECT_EQ(check.exit_code, 1);
  EXPECT_THAT(check.err, HasSubstr("checking master.h5 and 2 files that its links lead into: 5 numeric"));
  EXPECT_THAT(check.err,
              HasSubstr("master.h5: \"/nowhere\" leads into another file, missing.h5, which is missing"));
  std::vector<std::string> found;
  const auto json = nlohmann::json::parse(check.out);
  for (const auto& dataset : json["datasets"])
    found.push_back(dataset["file"].get<std::string>() + ':' + dataset["path"].get<std::string>() + ' ' +
                    dataset["result"].get<std::string>());
  EXPECT_THAT(found, testing::UnorderedElementsAre(
                         "a.h5:/run/x equal", "a.h5:/run/deep/y equal", "b.h5:/run/x equal",
                         "b.h5:/run/deep/y equal", "a.h5:/nickname/y equal",
                         "a.h5:/nickname not checked: group", "master.h5:/nowhere cannot be read"));
  const ProgramResult one = run_program(dir.path(), {"check", "master.h5", "--data", "group/deep/y"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("\na.h5:/run/deep/y  4 "));
  EXPECT_THAT(run_program(dir.path(), {"check", "master.h5", "--data", "group/deep/z"}).err,
              HasSubstr("which is not there"));
}

}  // namespace
}  // namespace h5feed::test
