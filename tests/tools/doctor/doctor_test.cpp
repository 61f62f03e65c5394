// SPDX-License-Identifier: Apache-2.0
// h5feed doctor on files and settings with one planted mistake each, and on sound ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/system_limits.hpp"
#include "support/files/file_text.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/program/process_tree.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/storage_advice.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Shape = std::vector<std::uint64_t>;

// Images that are stored soundly unless told otherwise: 3.5 MiB in chunks of 300 KiB.
struct Stored {
  Shape shape = {1200, 32, 32, 3};
  Shape chunk = {100, 32, 32, 3};
  hid_t type = H5T_STD_U8LE;
  std::vector<FilterSpec> filters = {gzip_filter(1)};
  std::vector<std::byte> values = {};  // empty: compressible ones
};

std::size_t size_of(const Shape& shape) {
  std::size_t size = 1;
  for (const std::uint64_t extent : shape) size *= extent;
  return size;
}

// The values as the bytes of doubles, each a `factor` of a byte.
std::vector<std::byte> doubles(std::size_t count, double factor) {
  const std::vector<std::byte> bytes = patterned_bytes(count);
  std::vector<std::byte> values(count * sizeof(double));
  for (std::size_t i = 0; i < count; ++i) {
    const double value = factor * std::to_integer<int>(bytes[i]);
    std::memcpy(values.data() + i * sizeof value, &value, sizeof value);
  }
  return values;
}

class Doctor : public ::testing::Test {
 protected:
  void write(const Stored& stored, const std::string& name = "train.h5", const std::string& group = "") {
    H5TestFile file(dir_ / name);
    add_images(file, stored, group);
  }
  static void add_images(H5TestFile& file, const Stored& stored, const std::string& group) {
    file.create({.path = group + "images",
                 .file_type = stored.type,
                 .shape = stored.shape,
                 .chunk = stored.chunk,
                 .filters = stored.filters});
    file.write(group + "images",
               stored.values.empty() ? patterned_bytes(size_of(stored.shape)) : stored.values);
    file.create({.path = group + "labels", .shape = {stored.shape.front()}});
    file.write(group + "labels", patterned_bytes(stored.shape.front()));
  }

  ProgramResult run(Words words) {
    words.insert(words.begin(), "doctor");
    return run_program(dir_.path(), words);
  }
  // Runs with little time, and returns the result.
  Json diagnose(Words options, int exit_code) {
    Words words = {"--time-budget", "500ms", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    const ProgramResult result = run(words);
    EXPECT_EQ(result.exit_code, exit_code) << result.err << result.out;
    return Json::parse(result.out);
  }
  // The findings, without that of a machine that leaves one core to these tests.
  static std::vector<Json> findings(const Json& result) {
    std::vector<Json> all = result.at("findings");
    std::erase_if(all, [](const Json& finding) { return finding["finding"] == "too_few_cores"; });
    return all;
  }
  void expect_only(const std::string& name, const Words& options = {"train.h5"}) {
    const Json result = diagnose(options, 1);
    const std::vector<Json> found = findings(result);
    ASSERT_EQ(found.size(), 1u) << result.dump(2);
    EXPECT_EQ(found[0]["finding"], name);
    EXPECT_EQ(found[0]["severity"], "serious");
    EXPECT_FALSE(found[0]["mend"].empty());
  }

  TempDir dir_;
};

TEST_F(Doctor, finds_nothing_in_a_sound_file) {
  write({});
  const Json result = diagnose(
      {"train.h5"}, system_limits().cpus < system_limits().host_cpus && system_limits().cpus == 1 ? 1 : 0);
  EXPECT_THAT(findings(result), IsEmpty()) << result.dump(2);
  EXPECT_EQ(result["data"], "/images");
  EXPECT_EQ(result["settings"]["target"], "/labels");
  EXPECT_EQ(result["settings_supposed"], true);
  EXPECT_EQ(result["settings"]["num_workers"], "auto");
  EXPECT_GT(result["measured"]["samples_per_s"], 0);
  EXPECT_EQ(result["command"], Json());
}

TEST_F(Doctor, finds_nothing_in_contiguous_images_in_any_order) {
  write({.chunk = {}, .filters = {}});
  EXPECT_THAT(findings(diagnose({"train.h5", "--shuffle", "full", "--num-workers", "1"}, 0)), IsEmpty());
}

TEST_F(Doctor, names_chunks_that_cut_samples) {
  write({.chunk = {200, 8, 16, 3}});
  expect_only("cut_samples");
}

TEST_F(Doctor, names_a_filter_that_saves_nothing) {
  write({.filters = {gzip_filter(9)}, .values = random_bytes(size_of(Stored().shape))});
  expect_only("useless_filter");
}

TEST_F(Doctor, names_chunks_of_one_row) {
  write({.chunk = {1, 32, 32, 3}, .filters = {}});
  expect_only("one_row_chunks");
}

TEST_F(Doctor, names_images_of_doubles_and_the_type_that_suffices) {
  const Stored wide{.shape = {100, 32, 32, 3}, .chunk = {10, 32, 32, 3}, .type = H5T_IEEE_F64LE};
  for (const auto& [factor, type] : {std::pair(1.0, "uint8"), std::pair(1 / 255.0, "float32")}) {
    Stored stored = wide;
    stored.values = doubles(size_of(stored.shape), factor);
    write(stored, "train.h5");
    expect_only("wide_values");
    const Json found = findings(diagnose({"train.h5"}, 1)).at(0);
    EXPECT_THAT(found["mend"][0].get<std::string>(), HasSubstr(std::string(".astype(\"") + type + "\")"));
  }
}

// Who gives h5py a filter and no chunks gets chunks that cut samples.
TEST_F(Doctor, names_chunks_that_were_not_chosen_with_a_filter) {
  Stored stored;
  stored.chunk = cli::h5py_auto_chunk(stored.shape, 1);
  write(stored);
  expect_only("unset_chunks");
}

TEST_F(Doctor, names_one_compressed_chunk_for_everything) {
  write({.shape = {5700, 32, 32, 3}, .chunk = {5700, 32, 32, 3}});
  expect_only("one_chunk");
}

TEST_F(Doctor, names_a_cache_that_is_too_small_for_the_shuffle) {
  write({});
  expect_only("cache_too_small", {"train.h5", "--shuffle", "full", "--cache-bytes", "1MiB"});
}

TEST_F(Doctor, names_windows_that_are_larger_than_the_cache) {
  write({});
  expect_only("window_exceeds_cache",
              {"train.h5", "--shuffle", "chunk:8", "--batch-size", "64", "--cache-bytes", "1MiB"});
}

TEST_F(Doctor, names_a_loader_without_workers) {
  write({});
  expect_only("no_workers", {"train.h5", "--num-workers", "0"});
  // A training by this file has none: the default of a loader.
  std::ofstream(dir_ / "train.json") << R"({"dataset": {"files": ["train.h5"], "data": "images"}})";
  expect_only("no_workers", {"--config", "train.json"});
}

TEST_F(Doctor, names_a_single_core_of_several) {
  if (system_limits().host_cpus == 1) GTEST_SKIP() << "the machine has one core";
  write({});
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const Json result = diagnose({"train.h5"}, 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_EQ(result["findings"].size(), 1u) << result.dump(2);
  EXPECT_EQ(result["findings"][0]["finding"], "too_few_cores");
}

TEST_F(Doctor, prints_a_page_whose_command_mends_the_file) {
  write({.chunk = {200, 8, 16, 3}});
  const ProgramResult page = run({"train.h5", "--time-budget", "500ms"});
  EXPECT_EQ(page.exit_code, 1);
  const std::string mend = "h5feed repack train.h5 NEW.h5 --dataset /images --chunk auto";
  EXPECT_THAT(page.out, HasSubstr("\n1. cut_samples (serious): /images: each sample spans 8 chunks"));
  EXPECT_THAT(page.out, HasSubstr("\n   mend: " + mend + "\n"));
  for (const std::string& line : lines_of(page.out)) EXPECT_LE(cli::display_width(line), 120u) << line;
  ASSERT_EQ(
      run_program(dir_.path(), {"repack", "train.h5", "NEW.h5", "--dataset", "/images", "--chunk", "auto"})
          .exit_code,
      0);
  EXPECT_THAT(findings(diagnose({"NEW.h5"}, 0)), IsEmpty());
}

TEST_F(Doctor, writes_commands_that_a_shell_takes_whatever_the_names) {
  const std::string name = "my train'; touch hurt; '.h5";
  write({.chunk = {200, 8, 16, 3}}, name);
  const Json result = diagnose({name}, 1);
  const std::string mend = findings(result).at(0)["mend"].back();
  ASSERT_THAT(mend, StartsWith("h5feed repack 'my train"));
  const std::string line = "cd '" + dir_.path().string() + "' && '" + H5FEED_PROGRAM + "' " +
                           mend.substr(std::strlen("h5feed ")) + " > out 2>&1";
  const std::string command = "sh -c \"$LINE\"";
  ASSERT_EQ(::setenv("LINE", line.c_str(), 1), 0);
  EXPECT_EQ(std::system(command.c_str()), 0) << text_of(dir_ / "out");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "hurt"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "NEW.h5"));
}

TEST_F(Doctor, refuses_a_mixture_and_says_how_to_examine_it) {
  write({});
  std::ofstream(dir_ / "m.json")
      << R"({"mixture": {"sets": [{"dataset": {"files": ["train.h5"]}, "weight": 1}]}})";
  const ProgramResult result = run({"--config", "m.json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "doctor examines one set of samples, and m.json describes a mixture; examine each: h5feed doctor "
            "train.h5\n");
}

TEST_F(Doctor, recommends_what_tune_finds_if_there_is_time) {
  write({.chunk = {1, 32, 32, 3}, .filters = {}});
  const Json result = Json::parse(run({"train.h5", "--time-budget", "20s", "--json"}).out);
  EXPECT_THAT(
      findings(result).at(0)["mend"][0].get<std::string>(),
      ::testing::MatchesRegex("h5feed repack train.h5 NEW.h5 --dataset /images --chunk [0-9]+ --filter .*"
                              "  # [0-9,]+ samples/s on [0-9]+ idle cores?, as tune predicts"));
}

TEST_F(Doctor, takes_the_training_set_and_names_the_other) {
  {
    H5TestFile file(dir_ / "train.h5");
    add_images(file, {}, "train/");
    add_images(file, {.shape = {200, 32, 32, 3}}, "test/");
  }
  EXPECT_EQ(diagnose({"train.h5"}, 0)["data"], "/train/images");
  const std::string page = run({"train.h5", "--time-budget", "500ms"}).out;
  EXPECT_THAT(std::regex_replace(page, std::regex("\n +"), " "),
              HasSubstr("(other samples: --data /test/images --target /test/labels)"));
  ASSERT_EQ(run_program(dir_.path(), {"info", "train.h5", "--write-config", "train.json"}).exit_code, 0);
  EXPECT_EQ(Json::parse(text_of(dir_ / "train.json"))["dataset"]["data"], "/train/images") << "as info does";
  EXPECT_EQ(diagnose({"train.h5", "--data", "test/images"}, 0)["data"], "/test/images");
}

TEST_F(Doctor, refuses_what_it_cannot_examine_in_one_line) {
  write({});
  const auto refused = [&](const Words& words, int exit_code) {
    const ProgramResult result = run(words);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({"none.h5"}, 1), HasSubstr("none.h5"));
  EXPECT_THAT(refused({"train.h5", "--data", "imgs"}, 1), HasSubstr("imgs"));
  EXPECT_THAT(refused({}, 2), HasSubstr("no file; give FILE"));
  EXPECT_THAT(refused({"train.h5", "--num-workers", "1,2"}, 2), HasSubstr("give one number, or auto"));
  EXPECT_THAT(refused({"train.h5", "--"}, 2), HasSubstr("followed by no command"));
  EXPECT_THAT(refused({"train.h5", "--export-json", "train.h5"}, 2), HasSubstr("train.h5"));
}

TEST_F(Doctor, reports_a_command_that_fails) {
  write({});
  const ProgramResult result =
      run({"train.h5", "--time-budget", "2s", "--json", "--", "sh", "-c", "echo said; exit 3"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("said\n")) << "the page has stdout for itself";
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["command"]["exit_code"], 3);
  const std::vector<Json> found = findings(json);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["finding"], "command_failed");
}

TEST_F(Doctor, reports_what_the_loaders_of_a_command_delivered) {
  write({});
  const ProgramResult result =
      run({"train.h5", "--time-budget", "12s", "--json", "--", H5FEED_PROGRAM, "bench", "train.h5",
           "--num-workers", "1", "--rate-only", "--time-budget", "1500ms"});
  const Json command = Json::parse(result.out)["command"];
  EXPECT_EQ(command["exit_code"], 0) << result.err;
  EXPECT_GT(command["samples_per_s"], 0);
}

TEST_F(Doctor, ends_a_command_and_its_children_when_the_time_is_over) {
  write({});
  const ProgramResult result = run(
      {"train.h5", "--time-budget", "2s", "--json", "--", "sh", "-c", "sleep 1000 & echo $! > child; wait"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["command"]["cut_short"], true);
  EXPECT_EQ(json["command"]["exit_code"], 128 + SIGTERM);
  // Whoever inherits the child may not have waited for it yet.
  const auto child = cli::process_stat(std::stoi(text_of(dir_ / "child")));
  EXPECT_TRUE(!child || child->state == 'Z') << child->state;
}

TEST_F(Doctor, is_interrupted_cleanly_while_a_command_runs) {
  write({});
  Program program(dir_.path(), {"doctor", "train.h5", "--time-budget", "10s", "--", "sleep", "1000"});
  program.wait_for_stderr_line();  // running sleep for at most ...
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("interrupted\n"));
}

TEST_F(Doctor, exports_its_findings) {
  write({.chunk = {1, 32, 32, 3}, .filters = {}});
  diagnose({"train.h5", "--export-csv", "a.csv", "--export-markdown", "a.md", "--export-json", "a.json"}, 1);
  EXPECT_THAT(text_of(dir_ / "a.csv"), StartsWith("severity,finding,what,mend\nserious,one_row_chunks,"));
  EXPECT_THAT(text_of(dir_ / "a.md"), HasSubstr("one_row_chunks"));
  EXPECT_EQ(Json::parse(text_of(dir_ / "a.json"))["findings"][0]["finding"], "one_row_chunks");
}

}  // namespace
}  // namespace h5feed::test
