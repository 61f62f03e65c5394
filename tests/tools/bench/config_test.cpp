// SPDX-License-Identifier: Apache-2.0
// `h5feed bench --config` of everything that a configuration can say, and the configurations that `h5feed
// info` writes for the layouts that it recognises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "support/files/h5_test_file.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class BenchConfigTest : public testing::Test {
 protected:
  // Writes `rows` rows of `width` floats in compressed chunks, and a label for each.
  void write_rows(const char* name, std::uint64_t rows, std::uint64_t width, std::uint64_t chunk) {
    H5TestFile file(dir_ / name);
    file.create({.path = "data",
                 .file_type = H5T_IEEE_F32LE,
                 .shape = {rows, width},
                 .chunk = {chunk, width},
                 .filters = {gzip_filter(1)}});
    file.write("data", random_bytes(static_cast<std::size_t>(rows * width) * 4, 1));
    file.create({.path = "labels", .file_type = H5T_STD_I64LE, .shape = {rows}});
  }

  ProgramResult bench_result(const Json& config, const std::vector<std::string>& more = {}) {
    std::ofstream(dir_ / "c.json") << config.dump();
    std::vector<std::string> arguments = {"bench", "--config", "c.json", "--num-workers", "1",    "--runs",
                                          "1",     "--warmup", "0",      "--time-budget", "200ms"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(dir_.path(), arguments);
  }

  Json bench(const Json& config) {
    const ProgramResult result = bench_result(config, {"--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? Json::parse(result.out) : Json();
  }

  TempDir dir_;
};

Json set_of(const char* file, double weight) {
  return {{"dataset", {{"files", {file}}, {"data", "data"}, {"target", "labels"}, {"input_layout", "none"}}},
          {"weight", weight}};
}

TEST_F(BenchConfigTest, measures_mixtures_with_the_limit_of_their_chunks) {
  write_rows("a.h5", 600, 64, 20);
  write_rows("b.h5", 200, 64, 50);
  const Json config = {
      {"mixture", {{"sets", {set_of("a.h5", 0.75), set_of("b.h5", 0.25)}}, {"epoch_size", "longest"}}},
      {"loader", {{"batch_size", 16}, {"shuffle", "chunk:2"}, {"cache_bytes", 100'000}}}};
  const Json result = bench(config);
  ASSERT_TRUE(result.contains("rows"));
  const Json& row = result["rows"][0];
  EXPECT_GT(row.at("samples_per_s").get<double>(), 0);
  EXPECT_EQ(row.at("limit"), "decode");
  EXPECT_GT(row.at("share_of_limit").get<double>(), 0);
  EXPECT_EQ(row.at("no_limit"), nullptr);
  EXPECT_EQ(result.at("settings").at("mixture").at("sets")[1].at("weight"), 0.25);
  EXPECT_EQ(result.at("settings").at("mixture").at("epoch_size"), "longest");
  EXPECT_EQ(result.at("settings").at("samples_per_epoch"), 800);
  EXPECT_THAT(bench_result(config).err, HasSubstr("a.h5 and 1 more set"));
}

TEST_F(BenchConfigTest, measures_windows_fields_and_files_of_targets) {
  write_rows("a.h5", 400, 64, 20);
  write_rows("t.h5", 400, 3, 20);
  Json config = {{"dataset",
                  {{"files", {"a.h5"}},
                   {"data", "data"},
                   {"input_layout", "none"},
                   {"window", {-2, -1, 0}},
                   {"target", "labels"},
                   {"target_files", {"t.h5"}},
                   {"target_window", {1, 2}},
                   {"fields", {{{"name", "now"}, {"data", "labels"}, {"window", {0, 1}}}}},
                   {"episodes", {{"index", "series"}, {"missing_before", 2}}}}},
                 {"loader", {{"batch_size", 16}, {"shuffle", "chunk:1"}}}};
  const Json result = bench(config);
  ASSERT_TRUE(result.contains("rows"));
  EXPECT_EQ(result["rows"][0].at("limit"), "decode");
  EXPECT_GT(result["rows"][0].at("share_of_limit").get<double>(), 0);
  // Data of a sample: three rows of 64 floats.
  EXPECT_NEAR(
      result["rows"][0].at("bytes_per_s").get<double>() / result["rows"][0].at("samples_per_s").get<double>(),
      3 * 64 * 4, 1e-6);
  EXPECT_EQ(result.at("settings").at("samples_per_epoch"), 398);
  EXPECT_EQ(result.at("settings").at("target_files")[0], "t.h5");
}

TEST_F(BenchConfigTest, takes_layouts_in_any_case_and_other_words_as_they_are) {
  write_rows("a.h5", 40, 4, 20);
  Json config = {{"dataset", {{"files", {"a.h5"}}, {"data", "data"}, {"input_layout", "NONE"}}},
                 {"loader", {{"cache_policy", "keep_first"}}}};
  EXPECT_TRUE(bench(config).contains("rows"));
  config["loader"]["cache_policy"] = "Keep_First";
  EXPECT_THAT(bench_result(config).err, HasSubstr("loader.cache_policy: expected one of \"lru\", "));
  config["loader"] = Json::object();
  config["dataset"]["input_layout"] = "NHCW";
  EXPECT_THAT(bench_result(config).err,
              HasSubstr("dataset.input_layout: expected one of \"auto\", \"automatic\", \"nchw\", "));
}

TEST_F(BenchConfigTest, takes_a_timeout_of_zero_and_refuses_a_negative_number_of_workers) {
  write_rows("a.h5", 40, 4, 20);
  Json config = {{"dataset", {{"files", {"a.h5"}}, {"data", "data"}, {"input_layout", "none"}}},
                 {"loader", {{"timeout", 0}, {"num_workers", 2}}}};
  EXPECT_TRUE(bench(config).contains("rows"));
  config["loader"] = {{"num_workers", -1}};
  const ProgramResult refused = bench_result(config);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("expected a number of at least 0 or \"auto\", got -1"));
}

TEST_F(BenchConfigTest, says_why_there_is_no_limit) {
  // A target above 64 MiB is decoded like the data.
  H5TestFile(dir_ / "a.h5")
      .create({.path = "fields",
               .file_type = H5T_IEEE_F32LE,
               .shape = {20, 1'000'000},
               .chunk = {1, 1'000'000},
               .filters = {gzip_filter(1)}});
  const Json config = {{"dataset",
                        {{"files", {"a.h5"}},
                         {"data", "fields"},
                         {"target", "fields"},
                         {"input_layout", "none"},
                         {"window", {-1, 0}},
                         {"target_window", {1}}}},
                       {"loader", {{"batch_size", 2}}}};
  const ProgramResult result = bench_result(config);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("no limit to compare with: the target or a field is decoded in addition to "
                        "the data, whose limit alone is measured\n"));
}

TEST_F(BenchConfigTest, refuses_options_of_one_dataset_for_a_mixture) {
  write_rows("a.h5", 40, 4, 20);
  const Json config = {{"mixture", {{"sets", {set_of("a.h5", 1)}}}}};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--data", "data"}, {"a.h5"}, {"--set", "window=[0]"}}) {
    const ProgramResult result = bench_result(config, more);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err,
                HasSubstr("the configuration describes a mixture; give options of a dataset in its sets"));
  }
  EXPECT_THAT(bench_result(config, {"--cold"}).err, HasSubstr("--cold drops the pages of one file"));
  Json both = config;
  both["dataset"] = {{"files", {"a.h5"}}};
  EXPECT_THAT(bench_result(both).err, HasSubstr("\"dataset\" and \"mixture\" exclude each other"));
  Json unknown = config;
  unknown["mixture"]["sets"][0]["share"] = 1;
  EXPECT_THAT(bench_result(unknown).err, HasSubstr("c.json: mixture.sets[0] has no option \"share\"; it has "
                                                   "dataset, weight, shuffle"));
  Json negative = config;
  negative["mixture"]["sets"][0]["weight"] = -1;
  EXPECT_EQ(bench_result(negative).exit_code, 2);
}

TEST_F(BenchConfigTest, takes_what_info_writes_for_every_layout) {
  {
    SparseFile cells(dir_ / "cells.h5ad");
    cells.matrix("X", random_rows(200, 30), 64);
    cells.file().createGroup("obs");
    std::vector<std::int8_t> codes(200, 0);
    cells.categories("obs/cell_type", codes, {"B"});
    H5TestFile demos(dir_ / "demos.h5");
    for (const char* const demo : {"data/demo_0", "data/demo_1"}) {
      demos.create({.path = std::string(demo) + "/actions", .file_type = H5T_IEEE_F64LE, .shape = {20, 7}});
      demos.create({.path = std::string(demo) + "/obs/image", .shape = {20, 8, 9, 3}});
    }
    H5TestFile weather(dir_ / "weather.h5");
    weather.create(
        {.path = "fields", .file_type = H5T_IEEE_F32LE, .shape = {40, 3, 16, 32}, .chunk = {1, 1, 16, 32}});
    H5TestFile scan(dir_ / "scan.h5");
    scan.create({.path = "raw", .file_type = H5T_IEEE_F32LE, .shape = {40, 40, 40}, .chunk = {20, 20, 20}});
    scan.create({.path = "label", .shape = {40, 40, 40}});
    H5TestFile mri(dir_ / "mri.h5");
    mri.create({.path = "kspace", .file_type = H5T_IEEE_F32LE, .shape = {10, 8, 9, 2}});
    mri.create({.path = "reconstruction_rss", .file_type = H5T_IEEE_F32LE, .shape = {10, 8, 9}});
    H5TestFile images(dir_ / "images.h5");
    images.create({.path = "photos", .shape = {40, 40, 40, 3}});
  }
  for (const char* const file : {"cells.h5ad", "demos.h5", "weather.h5", "scan.h5", "mri.h5", "images.h5"}) {
    const ProgramResult info = run_program(dir_.path(), {"info", file, "--write-config", "c.json"});
    ASSERT_EQ(info.exit_code, 0) << info.err;
    std::ifstream written(dir_ / "c.json");
    const Json result = bench(Json::parse(written));
    ASSERT_TRUE(result.contains("rows")) << file;
    EXPECT_GT(result["rows"][0].at("samples_per_s").get<double>(), 0) << file;
    if (file == std::string("cells.h5ad")) {
      EXPECT_EQ(result["rows"][0].at("limit"), "decode");
      EXPECT_GT(result["rows"][0].at("share_of_limit").get<double>(), 0);
    }
  }
}

}  // namespace
}  // namespace h5feed::test
