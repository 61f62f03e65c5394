// SPDX-License-Identifier: Apache-2.0
// Every command with everything that can be wrong with a file, a place or an option: one readable line, exit
// code 1 or 2, and nothing is left behind. The tables are data; the program itself is run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/h5_test_file.hpp"
#include "support/idx_bytes.hpp"
#include "support/run_program.hpp"
#include "support/temp_dir.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr std::chrono::seconds kTimeout(60);
constexpr std::size_t kLongestLine = 400;

// One run of the program and how it has to end.
struct Mistake {
  Words arguments;
  std::string mention;  // what the line has to name: the file, or the option
  int exit_code = 1;
  std::size_t notes = 0;  // lines in front of it that say what was begun
  RunLimits limits = {.timeout = kTimeout};
  std::function<void(const fs::path&)> prepare = [](const fs::path&) {};
};

std::string text_of(const Words& words) {
  std::string text = "h5feed";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// Sources that every command can work with: ten small images and their labels, as HDF5 and in the formats
// that pack takes.
void write_sources(const fs::path& folder) {
  const std::vector<std::byte> images = patterned_bytes(10 * 3 * 8 * 8), labels = patterned_bytes(10, 1);
  {
    H5TestFile file(folder / "good.h5");
    file.create({.path = "images",
                 .shape = {10, 3, 8, 8},
                 .chunk = {2, 3, 8, 8},
                 .filters = {{.id = 1, .params = {4}}}});
    file.write("images", images);
    file.create({.path = "labels", .shape = {10}});
    file.write("labels", labels);
  }
  replace_file(folder / "good.idx", idx_bytes(0x08, {10, 3, 8, 8}, images));
}

// Every name below `folder`, with the bytes of regular files.
std::map<std::string, std::vector<std::byte>> listing(const fs::path& folder) {
  std::map<std::string, std::vector<std::byte>> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    found[entry.path().lexically_relative(folder)] =
        entry.is_regular_file() ? file_bytes(entry.path()) : std::vector<std::byte>();
  }
  return found;
}

std::string fault_in_text(const Mistake& mistake, const std::string& text) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines != mistake.notes + 1 || !text.ends_with('\n')) return "not one line";
  const std::size_t before = text.rfind('\n', text.size() - 2);
  const std::string line = text.substr(before == std::string::npos ? 0 : before + 1);
  if (line.size() < 10 || line.size() > kLongestLine) return "too short or too long a line";
  if (line.find(mistake.mention) == std::string::npos) return "does not name " + mistake.mention;
  for (const char* const raw : {"HDF5-DIAG", "std::", "H5::", "exception", "Exception", "terminate called",
                                "basic_string", "stoi", "json.", "errno"}) {
    if (line.find(raw) != std::string::npos) return std::string("raw text of a library: ") + raw;
  }
  return {};
}

// What is wrong with how the program takes it; empty: nothing.
std::string fault_of(const Mistake& mistake) {
  const TempDir dir;
  write_sources(dir.path());
  mistake.prepare(dir.path());
  const auto before = listing(dir.path());
  const ProgramResult result = run_program(dir.path(), mistake.arguments, mistake.limits);
  std::string fault = fault_in_text(mistake, result.err);
  if (result.exit_code != mistake.exit_code) fault = "exit code is not " + std::to_string(mistake.exit_code);
  if (listing(dir.path()) != before) fault = "the folder changed";
  if (result.timed_out) fault = "does not end";
  if (fault.empty()) return {};
  return fault + "\n  " + text_of(mistake.arguments) + "\n  exit code " + std::to_string(result.exit_code) +
         ", signal " + std::to_string(result.signal) + "\n  " + result.err.substr(0, 2000);
}

// Several at once: most of a run is the start of a process.
void expect_all_refused(const std::vector<Mistake>& mistakes) {
  std::vector<std::string> faults(mistakes.size());
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1U, 4U); ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < mistakes.size(); at = next++) {
          try {
            faults[at] = fault_of(mistakes[at]);
          } catch (const std::exception& error) {
            faults[at] = std::string(error.what()) + ": " + text_of(mistakes[at].arguments);
          }
        }
      });
    }
  }
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

Words with(Words words, std::string_view placeholder, const std::string& value) {
  for (std::string& word : words) {
    if (const auto at = word.find(placeholder); at != std::string::npos)
      word.replace(at, placeholder.size(), value);
  }
  return words;
}

// ---- Files that are read --------------------------------------------------------------------------------

struct Reader {
  const char* name;
  Words arguments;    // IN: the file
  bool sized = true;  // its format says how long a file has to be
};

void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"info", {"info", "IN"}},
      {"info_write_attributes", {"info", "IN", "--stats", "--write-attributes"}, false},
      {"check", {"check", "IN"}},
      {"repack", {"repack", "IN", "out.h5", "--chunk", "2"}},
      {"tune", {"tune", "IN", "--time-budget", "1s", "--scratch", "."}},
      {"bench", {"bench", "IN", "--time-budget", "50ms", "--num-workers", "0"}},
      {"bench_cold", {"bench", "IN", "--cold", "--time-budget", "50ms", "--num-workers", "0"}, false},
      {"pack_idx", {"pack", "out.h5", "--idx", "images=IN"}},
      {"pack_npy", {"pack", "out.h5", "--npy", "images=IN"}, false},
      {"pack_csv", {"pack", "out.h5", "--csv", "IN", "--size", "8x8"}, false},
      {"pack_images", {"pack", "out.h5", "--images", "IN", "--size", "8x8"}, false},
  };
  return all;
}

class Readers : public ::testing::TestWithParam<Reader> {};

struct BadFile {
  const char* name;
  std::function<void(const fs::path&)> make = [](const fs::path&) {};
};

TEST_P(Readers, refuse_what_is_no_file_of_their_format) {
  const auto write = [](std::string_view text) {
    return [text](const fs::path& file) { replace_file(file, std::as_bytes(std::span(text))); };
  };
  const std::vector<BadFile> files = {
      {"missing.h5"},
      {"folder.h5", [](const fs::path& file) { fs::create_directory(file); }},
      {"/dev/null"},
      {"/dev/zero"},
      {"pipe.h5", [](const fs::path& file) { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); }},
      {"text.h5", write("Neither HDF5 nor anything else but long enough to hold a header.\n")},
      {"empty.h5", write("")},
  };
  std::vector<Mistake> mistakes;
  for (const BadFile& file : files) {
    mistakes.push_back({.arguments = with(GetParam().arguments, "IN", file.name), .mention = file.name});
    if (file.name[0] == '/') continue;
    mistakes.back().prepare = [&file](const fs::path& folder) { file.make(folder / file.name); };
  }
  expect_all_refused(mistakes);
}

class ReadersOfSizedFiles : public Readers {};

TEST_P(ReadersOfSizedFiles, refuse_a_good_file_cut_anywhere) {
  constexpr std::size_t kCuts = 20;
  const bool idx = std::string(GetParam().name) == "pack_idx";
  std::vector<Mistake> mistakes;
  for (std::size_t i = 1; i <= kCuts; ++i) {
    mistakes.push_back({.arguments = with(GetParam().arguments, "IN", "cut"), .mention = "cut"});
    mistakes.back().prepare = [i, idx](const fs::path& folder) {
      const std::vector<std::byte> good = file_bytes(folder / (idx ? "good.idx" : "good.h5"));
      replace_file(folder / "cut", std::span(good).first(good.size() * i / (kCuts + 1)));
    };
  }
  expect_all_refused(mistakes);
}

constexpr auto kNameOfRow = [](const auto& row) { return std::string(row.param.name); };

std::vector<Reader> readers_of_sized_files() {
  std::vector<Reader> chosen;
  std::copy_if(readers().begin(), readers().end(), std::back_inserter(chosen),
               [](const Reader& reader) { return reader.sized; });
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(BadInput, Readers, ::testing::ValuesIn(readers()), kNameOfRow);
INSTANTIATE_TEST_SUITE_P(BadInput, ReadersOfSizedFiles, ::testing::ValuesIn(readers_of_sized_files()),
                         kNameOfRow);

// ---- Places that are written -----------------------------------------------------------------------------

void make_locked_folder(const fs::path& folder) {
  fs::create_directory(folder / "locked");
  fs::permissions(folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
}

struct Writer {
  const char* name;
  Words arguments;       // OUT: the place
  bool streams = false;  // writes to devices as well
};

void PrintTo(const Writer& writer, std::ostream* out) { *out << writer.name; }

const std::vector<Writer>& writers() {
  static const std::vector<Writer> all = {
      {"generate", {"generate", "OUT", "--samples", "4", "--shape", "1,8,8", "--force"}},
      {"pack", {"pack", "OUT", "--idx", "images=good.idx", "--force"}},
      {"repack", {"repack", "good.h5", "OUT", "--chunk", "2", "--force"}},
      {"info", {"info", "good.h5", "--export-json", "OUT"}},
      {"check", {"check", "good.h5", "--export-csv", "OUT"}},
      {"tune", {"tune", "good.h5", "--export-markdown", "OUT", "--scratch", "."}},
      {"bench", {"bench", "good.h5", "--export-json", "OUT"}},
      {"monitor", {"monitor", "-o", "OUT", "--", "true"}, true},
  };
  return all;
}

class Writers : public ::testing::TestWithParam<Writer> {};

TEST_P(Writers, refuse_a_place_that_cannot_be_written_before_they_work) {
  std::vector<Mistake> mistakes;
  const auto add = [&](const std::string& place, std::function<void(const fs::path&)> prepare = {}) {
    mistakes.push_back({.arguments = with(GetParam().arguments, "OUT", place), .mention = place});
    if (prepare) mistakes.back().prepare = std::move(prepare);
  };
  add("folder", [](const fs::path& folder) { fs::create_directory(folder / "folder"); });
  add("none/out");
  add("good.h5/out");
  add("/proc/self/out");
  add(std::string(250, 'x'));  // too long beside what a temporary name adds
  add("pipe", [](const fs::path& folder) { ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0); });
  if (can_obey_modes()) {
    add("locked/out", make_locked_folder);
    mistakes.back().limits.obey_modes = true;
  }
  if (!GetParam().streams) {
    add("/dev/full");
  }
  expect_all_refused(mistakes);
}

INSTANTIATE_TEST_SUITE_P(BadInput, Writers, ::testing::ValuesIn(writers()), kNameOfRow);

TEST(BadInput, a_folder_for_temporary_files_that_cannot_be_written) {
  std::vector<Mistake> mistakes;
  for (const std::string place : {"none", "good.h5", "/proc/self", "locked"}) {
    if (place == "locked" && !can_obey_modes()) continue;
    mistakes.push_back({.arguments = {"tune", "good.h5", "--scratch", place}, .mention = place});
    mistakes.back().prepare = make_locked_folder;
    mistakes.back().limits.obey_modes = place == "locked";
  }
  expect_all_refused(mistakes);
}

TEST(BadInput, a_file_that_cannot_be_changed) {
  if (!can_obey_modes()) GTEST_SKIP() << "modes of files mean nothing to root here";
  const auto prepare = [](const fs::path& folder) {
    fs::permissions(folder / "good.h5", fs::perms::owner_read);
  };
  expect_all_refused({{.arguments = {"info", "good.h5", "--stats", "--write-attributes"},
                       .mention = "good.h5",
                       .limits = {.timeout = kTimeout, .obey_modes = true},
                       .prepare = prepare}});
}

// No file may grow beyond a size, as where the storage is full.
TEST(BadInput, full_storage) {
  std::vector<Mistake> mistakes;
  const auto add = [&](const Words& arguments, std::uint64_t file_bytes, const std::string& mention,
                       std::size_t notes = 0) {
    mistakes.push_back({.arguments = arguments,
                        .mention = mention,
                        .notes = notes,
                        .limits = {.timeout = kTimeout, .file_bytes = file_bytes}});
  };
  // From 1 MiB on the work begins, and finds out later.
  for (const std::uint64_t room : {0, 1000, 1 << 20}) {
    const std::size_t begun = room < (1 << 20) ? 0 : 1;
    add({"generate", "out.h5", "--samples", "100", "--shape", "1,8,8", "--filter", "none"}, room, "out.h5",
        begun);
    add({"pack", "out.h5", "--idx", "images=good.idx", "--filter", "none"}, room, "out.h5", begun);
    add({"repack", "good.h5", "out.h5", "--filter", "none"}, room, "out.h5", 3 * begun);
    add({"repack", "good.h5", "out.h5", "--filter", "none", "--split", "2"}, room, "out", 3 * begun);
    add({"tune", "good.h5", "--scratch", ".", "--time-budget", "1s", "--filters", "none"}, room, "--scratch",
        begun);
  }
  add({"info", "good.h5", "--stats", "--write-attributes"}, 1000, "good.h5");
  add({"info", "good.h5", "--export-json", "out"}, 100, "out");
  add({"check", "good.h5", "--json", "--export-markdown", "out"}, 100, "out", 1);
  add({"bench", "good.h5", "--json", "--export-json", "out", "--time-budget", "50ms", "--num-workers", "0"},
      100, "out", 1);
  expect_all_refused(mistakes);
}

// ---- Options -------------------------------------------------------------------------------------------

struct Command {
  const char* name;
  Words arguments;  // that it needs
  Words twice;      // an option to give twice
  // Options of numbers, each with the values that it refuses.
  std::vector<std::pair<std::string, Words>> numbers = {};
};

void PrintTo(const Command& command, std::ostream* out) { *out << command.name; }

const Words kPositive = {"0", "-1", "9223372036854775808"};
const Words kNotNegative = {"-1", "9223372036854775808"};

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"info", {"info", "good.h5"}, {"--data", "images"}, {{"--jobs", kPositive}}},
      {"check", {"check", "good.h5"}, {"--jobs", "1"}, {{"--sample", kPositive}}},
      {"generate", {"generate", "out.h5"}, {"--samples", "3"}, {{"--samples", kPositive}}},
      {"generate_more",
       {"generate", "out.h5", "--samples", "4"},
       {"--force"},
       {{"--chunk", kPositive}, {"--shape", kPositive}}},
      {"pack", {"pack", "out.h5", "--idx", "images=good.idx"}, {"--chunk", "2"}, {{"--chunk", kPositive}}},
      {"repack", {"repack", "good.h5", "out.h5"}, {"--chunk", "2"}, {{"--chunk", kPositive}}},
      {"repack_more",
       {"repack", "good.h5", "out.h5", "--chunk", "2"},
       {"--force"},
       {{"--memory", {"0", "-1", "16EiB", "99999999999GiB"}}, {"--split", kPositive}}},
      {"tune",
       {"tune", "good.h5", "--scratch", "."},
       {"--num-workers", "1"},
       {{"--chunks", kPositive}, {"--num-workers", kNotNegative}}},
      {"bench",
       {"bench", "good.h5"},
       {"--runs", "1"},
       {{"--batch-size", kPositive},
        {"--num-workers", kNotNegative},
        {"--tile-size", kPositive},
        {"--world-size", kPositive}}},
      {"monitor", {"monitor"}, {"--interval", "1"}, {{"--interval", kPositive}, {"--pid", kPositive}}},
      {"env", {"env"}, {"--json"}},
      {"completion", {"completion", "bash"}, {}},
  };
  return all;
}

class Commands : public ::testing::TestWithParam<Command> {};

TEST_P(Commands, refuse_options_that_are_unknown_repeated_or_out_of_range) {
  std::vector<Mistake> mistakes;
  const auto add = [&](const Words& more, const std::string& mention) {
    Words words = GetParam().arguments;
    words.insert(words.end(), more.begin(), more.end());
    mistakes.push_back({.arguments = words, .mention = mention, .exit_code = 2});
  };
  add({"--frobnicate"}, "--frobnicate");
  if (!GetParam().twice.empty()) {
    Words twice = GetParam().twice;
    twice.insert(twice.end(), GetParam().twice.begin(), GetParam().twice.end());
    add(twice, GetParam().twice.front() + " is given twice");
  }
  for (const auto& [option, values] : GetParam().numbers) {
    for (const std::string& value : values) add({option, value}, option);
  }
  expect_all_refused(mistakes);
}

INSTANTIATE_TEST_SUITE_P(BadInput, Commands, ::testing::ValuesIn(commands()), kNameOfRow);

TEST(BadInput, names_of_nothing) {
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
