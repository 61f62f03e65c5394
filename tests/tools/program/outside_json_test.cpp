// SPDX-License-Identifier: Apache-2.0
// JSON and values of options that come from outside: nested without end, with null characters, and very long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/program/output.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kVeryDeep = 100'000;

std::string times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string lists(int levels) { return times("[", levels) + times("]", levels); }

// Texts and options that no run gets over in more than one line.
class OutsideJson : public ::testing::Test {
 protected:
  ProgramResult run(const std::string& text, const std::vector<std::string>& arguments) {
    std::ofstream(dir_ / "x.json", std::ios::binary) << text;
    return run_program(dir_.path(), arguments);
  }
  // Returns the message of the run that is refused.
  std::string refusal(const std::string& text, const std::vector<std::string>& arguments) {
    const ProgramResult result = run(text, arguments);
    EXPECT_EQ(result.signal, 0);
    EXPECT_GT(result.exit_code, 0);
    EXPECT_EQ(result.out, "");
    return result.err;
  }

  const TempDir dir_;
};

TEST_F(OutsideJson, is_parsed_up_to_a_depth) {
  std::string too_deep;
  EXPECT_TRUE(cli::json_from(lists(cli::kMostJsonLevels), &too_deep).is_array());
  EXPECT_EQ(too_deep, "");
  EXPECT_TRUE(cli::json_from(times("{\"a\":", 64) + "1" + times("}", 64)).is_object());
  const std::string mark = "\xEF\xBB\xBF";
  for (const std::string& text : {lists(65), lists(kVeryDeep), mark + lists(65), " \n" + lists(65),
                                  times("[", 65), times("{\"a\":", kVeryDeep) + "1" + times("}", kVeryDeep),
                                  "[\"\\\\\"," + lists(64) + "]", "[[],{}," + lists(64) + "]"}) {
    EXPECT_TRUE(cli::json_from(text, &too_deep).is_discarded());
    EXPECT_EQ(too_deep, "nested more than 64 levels deep") << text.substr(0, 100);
  }
  // Brackets in texts nest nothing.
  for (const std::string& text : {"[\"" + times("[", 100) + "\"]", "\"" + times("[", 100) + "\"",
                                  "[\"" + times("\\\"[", 100) + "\"]", "[" + times("[],", 1000) + "{}]"}) {
    EXPECT_FALSE(cli::json_from(text, &too_deep).is_discarded()) << text;
    EXPECT_EQ(too_deep, "");
  }
  for (const std::string& text : {std::string(), std::string("{"), "x" + times("[", 100)}) {
    EXPECT_TRUE(cli::json_from(text, &too_deep).is_discarded()) << text;
    EXPECT_EQ(too_deep, "") << text;
  }
}

TEST_F(OutsideJson, that_is_nested_without_end_is_refused_in_one_line) {
  const std::string deep = lists(kVeryDeep);
  EXPECT_EQ(
      refusal("{\"dataset\": {\"files\": " + deep + "}}", {"bench", "--config", "x.json"}),
      "x.json: nested more than 64 levels deep; h5feed info FILE --write-config writes a configuration\n");
  EXPECT_EQ(refusal("{\"rows\": " + deep + "}", {"bench", "a.h5", "--compare", "x.json"}),
            "--compare x.json: nested more than 64 levels deep; give a file of bench --export-json\n");
  // Arguments of a process are at most 128 KiB long.
  EXPECT_EQ(refusal("", {"bench", "a.h5", "--set", "augment=" + lists(60'000)}),
            "--set.augment: nested more than 64 levels deep, which no option is\n");
  for (const std::string& text : {deep, "{\n\"rows\": " + deep + "\n}\n", "{\"rows\": " + deep + "}\n"}) {
    EXPECT_THAT(refusal(text, {"report", "x.json", "-o", "p.html"}),
                StartsWith("x.json: is nested more than 64 levels deep; give a file of bench --export-json"));
  }
}

TEST_F(OutsideJson, of_one_line_of_a_log_is_left_out) {
  const std::string good =
      R"({"rank": 0, "epoch": 1, "wait_share": 0.5, "seconds": 2, "samples": 10, "finished": true})";
  const ProgramResult result = run(good + "\n{\"advice\": " + lists(kVeryDeep) + "}\n" + good + "\n",
                                   {"report", "x.json", "-o", "p.html"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::ifstream page(dir_ / "p.html");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(page), {}),
              HasSubstr("1 line is nested more than 64 levels deep and left out."));
}

TEST_F(OutsideJson, with_null_characters_in_paths_and_names_is_refused) {
  const SampleSet set({.shape = {20, 8, 6}});
  const std::string file = set.path().string();
  for (const auto& [dataset, message] : std::vector<std::pair<std::string, std::string>>{
           {R"("files": [")" + file + R"(\u0000x"])",
            "dataset.files[0]: expected a path without a null character, "},
           {R"("files": ")" + file + R"(\u0000")",
            "dataset.files: expected a path without a null character, "},
           {R"("stage_dir": "/tmp\u0000x")", "dataset.stage_dir: expected a path without a null character, "},
           {R"("data": "images\u0000x")",
            "dataset.data: expected text without a null character, got \"images\\u0000x\"\n"},
           {R"("target": "labels\u0000")", "dataset.target: expected text without a null character, "},
           {R"("fields": [{"name": "a", "data": "labels\u0000"}])",
            "dataset.fields[0].data: expected text without a null character, "},
           {R"("sparse": {"columns": ["a\u0000"]})",
            "dataset.sparse.columns[0]: expected a name without a null character, "}}) {
    const std::string files = dataset.starts_with("\"files\"") ? "" : R"("files": [")" + file + R"("], )";
    EXPECT_THAT(refusal("{\"dataset\": {" + files + dataset + "}}", {"bench", "--config", "x.json"}),
                StartsWith("x.json: " + message));
  }
  EXPECT_THAT(refusal(R"({"loader": {"epoch_log": "x\u0000y"}})", {"bench", file, "--config", "x.json"}),
              StartsWith("x.json: loader.epoch_log: expected a path without a null character, "));
  EXPECT_THAT(refusal("", {"bench", file, "--set", R"(target_files=["a\u0000b"])"}),
              StartsWith("--set.target_files[0]: expected a path without a null character, "));
}

TEST_F(OutsideJson, and_texts_that_are_very_long_are_shortened_in_messages) {
  const SampleSet set({.shape = {20, 8, 6}});
  const std::string file = set.path().string(), text(100'000, 'x');
  constexpr std::size_t kFew = 2000;  // some messages list every option
  for (const std::string& config :
       {R"({"loader": {"batch_size": ")" + text + "\"}}", R"({"loader": {"shuffle": ")" + text + "\"}}",
        R"({"loader": {"gpu_cache_bytes": ")" + text + "\"}}", R"({"loader": {")" + text + "\": 1}}",
        "{\"" + text + "\": 1}", R"({"dataset": {"input_layout": ")" + text + "\"}}",
        R"({"dataset": {"window": [1, {"a": ")" + text + "\"}]}}"}) {
    const std::string message = refusal(config, {"bench", file, "--config", "x.json"});
    EXPECT_LT(message.size(), kFew) << config.substr(0, 40);
    EXPECT_THAT(message, HasSubstr("xxxx…xxxx")) << config.substr(0, 40);
  }
  for (const std::string& typed :
       {"batch_size=" + text, "io_depth=" + text, "shuffle=" + text, "device=" + text, "data=" + text,
        text + "=1", text, "cache_bytes=" + text, "echo=" + text}) {
    const std::string message = refusal("", {"bench", file, "--set", typed});
    EXPECT_LT(message.size(), kFew) << typed.substr(0, 40);
    EXPECT_THAT(message, HasSubstr("xxxx…xxxx")) << typed.substr(0, 40);
  }
  EXPECT_EQ(refusal(R"({"loader": {"batch_size": ")" + text + "\"}}", {"bench", file, "--config", "x.json"}),
            "x.json: loader.batch_size: expected a whole number, got \"" + times("x", 48) + "…" +
                times("x", 49) + "\"\n");
}

}  // namespace
}  // namespace h5feed::test
