// SPDX-License-Identifier: Apache-2.0
// Every command with everything that can be wrong with a file or a place: one readable line, exit code 1 or
// 2, and nothing is left behind. The tables are data; the program itself is run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/files/h5_test_file.hpp"
#include "support/programs/bad_input.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;

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
      {"report", {"report", "IN", "-o", "out.html"}, false},
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
  Words arguments;  // OUT: the place
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
      {"monitor", {"monitor", "-o", "OUT", "--", "true"}},
      {"report", {"report", "good.h5", "-o", "OUT"}},
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
  add(std::string(NAME_MAX + 1, 'x'));
  add("pipe", [](const fs::path& folder) { ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0); });
  if (can_obey_modes()) {
    add("locked/out", make_locked_folder);
    mistakes.back().limits = as_built();
    mistakes.back().limits.obey_modes = true;
  }
  add("/dev/full");
  expect_all_refused(mistakes);
}

INSTANTIATE_TEST_SUITE_P(BadInput, Writers, ::testing::ValuesIn(writers()), kNameOfRow);

TEST(BadInput, ends_in_one_line_where_no_temporary_file_can_be_written) {
  std::vector<Mistake> mistakes;
  for (const std::string place : {"none", "good.h5", "/proc/self", "locked"}) {
    if (place == "locked" && !can_obey_modes()) continue;
    mistakes.push_back({.arguments = {"tune", "good.h5", "--scratch", place}, .mention = place});
    mistakes.back().prepare = make_locked_folder;
    if (place != "locked") continue;
    mistakes.back().limits = as_built();
    mistakes.back().limits.obey_modes = true;
  }
  expect_all_refused(mistakes);
}

TEST(BadInput, ends_in_one_line_where_a_file_cannot_be_changed) {
  if (!can_obey_modes()) GTEST_SKIP() << "modes of files mean nothing to root here";
  const auto prepare = [](const fs::path& folder) {
    fs::permissions(folder / "good.h5", fs::perms::owner_read);
  };
  RunLimits limits = as_built();
  limits.obey_modes = true;
  expect_all_refused({{.arguments = {"info", "good.h5", "--stats", "--write-attributes"},
                       .mention = "good.h5",
                       .limits = limits,
                       .prepare = prepare}});
}

// No file may grow beyond a size, as where the storage is full.
TEST(BadInput, ends_in_one_line_where_the_storage_is_full) {
  std::vector<Mistake> mistakes;
  const auto add = [&](const Words& arguments, std::uint64_t file_bytes, const std::string& mention,
                       std::size_t notes = 0) {
    mistakes.push_back({.arguments = arguments, .mention = mention, .notes = notes});
    // What begins starts threads and processes.
    if (notes > 0) mistakes.back().limits = as_built();
    mistakes.back().limits.file_bytes = file_bytes;
  };
  // From 1 MiB on the work begins, and finds out later.
  constexpr std::uint64_t kAmple = 1 << 20;
  for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{1000}, kAmple}) {
    const std::size_t begun = room < kAmple ? 0 : 1;
    add({"generate", "out.h5", "--samples", "100", "--shape", "1,8,8", "--filter", "none"}, room, "out.h5",
        begun);
    add({"pack", "out.h5", "--idx", "images=good.idx", "--filter", "none"}, room, "out.h5", begun);
    add({"repack", "good.h5", "out.h5", "--filter", "none"}, room, "out.h5", 3 * begun);
    add({"repack", "good.h5", "out.h5", "--filter", "none", "--split", "2"}, room, "out", 3 * begun);
    add({"tune", "good.h5", "--scratch", ".", "--time-budget", "10s", "--filters", "none"}, room,
        "--scratch");
  }
  add({"info", "good.h5", "--stats", "--write-attributes"}, 1000, "good.h5");
  add({"info", "good.h5", "--export-json", "out"}, 100, "out");
  add({"check", "good.h5", "--json", "--export-markdown", "out"}, 100, "out", 1);
  add({"bench", "good.h5", "--json", "--export-json", "out", "--time-budget", "50ms", "--num-workers", "0"},
      100, "out", 1);
  expect_all_refused(mistakes);
}

// The device refuses every byte, as a full disk does. Files that are done stay: nothing is wrong with them.
TEST(BadInput, ends_in_one_line_where_the_output_is_full) {
  std::vector<Mistake> mistakes;
  for (const Words& arguments : std::vector<Words>{{},
                                                   {"--help"},
                                                   {"--version"},
                                                   {"tune", "--help"},
                                                   {"info", "good.h5"},
                                                   {"info", "good.h5", "--json"},
                                                   {"env"},
                                                   {"completion", "bash"}}) {
    mistakes.push_back({.arguments = arguments, .mention = "output"});
    mistakes.back().limits.full_output = true;
  }
  expect_all_refused(mistakes);
}

}  // namespace
}  // namespace h5feed::test
