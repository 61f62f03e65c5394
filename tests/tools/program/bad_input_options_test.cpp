// SPDX-License-Identifier: Apache-2.0
// Every command with everything that can be wrong with an option: one readable line that names it, exit code
// 2, and nothing is left behind.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/programs/bad_input.hpp"

namespace h5feed::test {
namespace {

// Values that no number option takes, and those of the others that some do not.
const Words kNoNumber = {"1e400", "abc", "", "nan", "1;2"};

Words join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kAtLeastZero = join(kNoNumber, {"-1", "18446744073709551616"});  // 2^64
const Words kNotNegative = join(kNoNumber, {"-1", "9223372036854775808"});   // 2^63
const Words kPositive = join(kNotNegative, {"0"});
const Words kTime = join(kPositive, {"0s", "-1s", "1e400s", "9223372036854775808s"});
const Words kSize = join(kNoNumber, {"-1", "9223372036854775808", "16EiB", "99999999999GiB"});
const Words kMemory = join(kSize, {"0", "1", "1KiB"});

struct Option {
  std::string name;
  Words refused;  // values; given twice it is refused as well
  std::string good = "1";
  bool once = true;  // false: may be repeated
};

struct Command {
  const char* name;
  Words arguments;  // that it needs
  std::vector<Option> options = {};
};

void PrintTo(const Command& command, std::ostream* out) { *out << command.name; }

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"info", {"info", "good.h5", "--stats"}, {{"--jobs", kPositive}, {"--data", {""}, "images"}}},
      {"check",
       {"check", "good.h5"},
       {{"--jobs", kPositive}, {"--sample", kPositive, "1%"}, {"--time-budget", kTime, "1s"}}},
      {"generate_samples", {"generate", "out.h5"}, {{"--samples", kPositive}}},
      {"generate",
       {"generate", "out.h5", "--samples", "4", "--shape", "1,8,8"},
       {{"--chunk", join(kPositive, {"5", "999999999"})},
        {"--shape", kPositive},
        {"--classes", kPositive},
        {"--ratio", join(kPositive, {"0.9", "5"})},
        {"--seed", kAtLeastZero}}},
      {"generate_tokens",
       {"generate", "out.h5", "--samples", "4", "--kind", "tokens", "--shape", "8"},
       {{"--low", join(kNoNumber, {"9223372036854775808"})},
        {"--high", join(kNoNumber, {"9223372036854775808"}), "200"}}},
      {"pack",
       {"pack", "out.h5", "--idx", "images=good.idx"},
       {{"--chunk", join(kPositive, {"11", "999999999"})}}},
      {"pack_images", {"pack", "out.h5", "--images", ".", "--size", "8x8"}, {{"--jobs", kPositive}}},
      {"repack_chunk",
       {"repack", "good.h5", "out.h5"},
       {{"--chunk", join(kPositive, {"11", "999999999", "0MiB"})}, {"--memory", {"0"}, "1GiB"}}},
      {"repack",
       {"repack", "good.h5", "out.h5", "--chunk", "2"},
       {{"--memory", join(kSize, {"0"}), "1GiB"},
        {"--jobs", join(kPositive, {"100000"})},
        {"--split", kPositive},
        {"--shuffle-rows", kAtLeastZero}}},
      {"repack_part",
       {"repack", "good.h5", "out.h5", "--chunk", "2", "--split", "2"},
       {{"--part", join(kPositive, {"2/2", "1/0", "1/9223372036854775808"}), "0/2"}}},
      {"tune",
       {"tune", "good.h5", "--scratch", "."},
       {{"--chunks", join(kPositive, {"999999999"})},
        {"--num-workers", join(kNotNegative, {"100000"})},
        {"--batch-size", kPositive},
        {"--cache-bytes", kSize},
        {"--memory-budget-bytes", join(kSize, {"0", "1KiB"}), "1GiB"},
        {"--time-budget", join(kTime, {"0.1ms"}), "1s"}}},
      {"bench",
       {"bench", "good.h5"},
       {{"--runs", kPositive},
        {"--warmup", kNotNegative},
        {"--batch-size", kPositive},
        {"--num-workers", join(kNotNegative, {"100000"})},
        {"--tile-size", kPositive},
        {"--world-size", join(kPositive, {"100000"})},
        {"--cache-bytes", kSize},
        {"--memory-budget-bytes", kMemory, "1GiB"},
        {"--time-budget", kTime, "1s"},
        {"--seed", kAtLeastZero}}},
      {"doctor",
       {"doctor", "good.h5"},
       {{"--batch-size", kPositive},
        {"--num-workers", join(kNotNegative, {"100000", "1,2"}), "1"},
        {"--cache-bytes", kSize},
        {"--memory-budget-bytes", kMemory, "1GiB"},
        {"--time-budget", kTime, "1s"}}},
      {"monitor",
       {"monitor"},
       {{"--interval", kPositive},
        {"--pid", join(kPositive, {"2147483647"})},
        {"--gpu", join(kNoNumber, {"-1", "9223372036854775808", "3B:00"}), "0", false}}},
      {"env", {"env"}},
      {"report", {"report", "good.h5", "-o", "out.html"}},
      {"completion", {"completion", "bash"}},
  };
  return all;
}

class Commands : public ::testing::TestWithParam<Command> {};

TEST_P(Commands, refuse_options_that_are_unknown_repeated_or_out_of_range) {
  std::vector<Mistake> mistakes;
  const auto add = [&](const Words& more, const std::string& mention) {
    mistakes.push_back({.arguments = join(GetParam().arguments, more), .mention = mention, .exit_code = 2});
  };
  add({"--frobnicate"}, "--frobnicate");
  for (const Option& option : GetParam().options) {
    for (const std::string& value : option.refused) add({option.name, value}, option.name);
    if (option.once)
      add({option.name, option.good, option.name, option.good}, option.name + " is given twice");
  }
  expect_all_refused(mistakes);
}

INSTANTIATE_TEST_SUITE_P(BadInput, Commands, ::testing::ValuesIn(commands()), kNameOfRow);

TEST(BadInput, ends_in_one_line_where_a_flag_is_given_twice) {
  std::vector<Mistake> mistakes;
  for (const auto& [arguments, flag] : std::vector<std::pair<Words, std::string>>{
           {{"info", "good.h5"}, "--json"},
           {{"generate", "out.h5", "--samples", "4"}, "--force"},
           {{"repack", "good.h5", "out.h5", "--chunk", "2"}, "--no-verify"},
           {{"bench", "good.h5"}, "--cold"},
           {{"env"}, "--json"}}) {
    mistakes.push_back(
        {.arguments = join(arguments, {flag, flag}), .mention = flag + " is given twice", .exit_code = 2});
  }
  expect_all_refused(mistakes);
}

TEST(BadInput, ends_in_one_line_where_a_name_is_of_nothing) {
  expect_all_refused(
      {{.arguments = {"frobnicate"}, .mention = "\"frobnicate\"", .exit_code = 2},
       {.arguments = {"completion", "fish"}, .mention = "\"fish\"", .exit_code = 2},
       {.arguments = {"info", "good.h5", "--data", "nothing"}, .mention = "\"nothing\""},
       {.arguments = {"check", "good.h5", "--data", "nothing"}, .mention = "\"nothing\""},
       {.arguments = {"tune", "good.h5", "--data", "nothing"}, .mention = "\"nothing\""},
       {.arguments = {"bench", "good.h5", "--data", "nothing"}, .mention = "\"nothing\""},
       {.arguments = {"bench", "good.h5", "--target", "nothing"}, .mention = "\"nothing\""},
       {.arguments = {"repack", "good.h5", "out.h5", "--chunk", "2", "--dataset", "nothing"},
        .mention = "\"nothing\""},
       {.arguments = {"monitor", "--pid", "2147483647"}, .mention = "--pid 2147483647", .exit_code = 2}});
}

}  // namespace
}  // namespace h5feed::test
