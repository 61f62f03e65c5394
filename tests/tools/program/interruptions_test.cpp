// SPDX-License-Identifier: Apache-2.0
// Commands, ended by a signal at a random moment: they obey at once, leave no part of an output, no temporary
// file and no process behind, and change no input.
//   H5FEED_TEST_SEED=17 interruptions_test     the moments of this seed; default a random one
//   H5FEED_TEST_KILLS=50 interruptions_test    as many rounds of the three signals; default 3
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/files/file_text.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/report_inputs.hpp"
#include "support/programs/run_program.hpp"
#include "support/wait_until.hpp"

namespace h5feed::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLatestInShortRuns(400);

struct Command {
  const char* name;
  std::vector<std::string> arguments;
  bool reports = false;  // after SIGINT and SIGTERM, too, and then exits with 128 and their number
  bool resumes = false;  // goes on with the complete parts that an interrupted run has left
  bool changes = false;  // adds attributes to a.h5
};

std::vector<Command> commands() {
  return {
      {"generate", {"generate", "out.h5", "--samples", "2000", "--shape", "3,32,32"}},
      {"pack", {"pack", "out.h5", "--npy", "images=images.npy"}},
      {"repack", {"repack", "a.h5", "out.h5", "--chunk", "7", "--filter", "gzip:6"}},
      {"split", {"repack", "a.h5", "out.h5", "--chunk", "7", "--split", "3"}},
      {.name = "resume",
       .arguments = {"repack", "a.h5", "out.h5", "--chunk", "7", "--split", "3", "--resume"},
       .resumes = true},
      {"check", {"check", "a.h5"}},
      {"info", {"info", "a.h5", "--stats"}},
      {.name = "attributes", .arguments = {"info", "a.h5", "--stats", "--write-attributes"}, .changes = true},
      {"bench",
       {"bench", "a.h5", "--num-workers", "0,2", "--time-budget", "0.2s", "--export-json", "out.json"}},
      {"peer",
       {"bench", "a.h5", "--peer", "pytorch", "--python", "./python", "--num-workers", "0", "--runs", "1",
        "--time-budget", "0.1s", "--export-json", "out.json"}},
      {"tune", {"tune", "a.h5", "--time-budget", "5s"}},
      {"doctor", {"doctor", "a.h5", "--time-budget", "0.2s"}},
      {"monitor", {"monitor", "--", "sleep", "0.3"}, true},
      {"env", {"env"}},
      {"report", {"report", "in.json", "-o", "out.html"}},
      {"completion", {"completion", "bash"}},
#ifdef H5FEED_TEST_IMAGES
      {"images", {"pack", "out.h5", "--images", "imgs", "--size", "32x32"}},
#endif
  };
}

constexpr int kImages = 200;

// Images of 64 x 64 pixels in two classes.
void write_images(const std::filesystem::path& folder) {
  for (const char* const name : {"cat", "dog"}) {
    std::filesystem::create_directories(folder / name);
    for (int i = 0; i < kImages / 2; ++i)
      std::ofstream(folder / name / (std::to_string(i) + ".ppm")) << "P6 64 64 255\n"
                                                                  << std::string(3 * 64 * 64, 'x');
  }
}

// A program that answers as Python does that runs the scripts of a peer.
void write_python(const std::filesystem::path& path) {
  std::ofstream(path) << R"(#!/bin/sh
if [ "$2" = describe ]; then
  echo '{"python": "3", "modules": {"h5py": {"version": "3", "pip": "h5py", "apt": "", "problem": ""}}, "ways":
    [{"mode": "tuned", "name": "reader", "order": "full", "same_order": false, "converts": false,
    "slow_start": false}]}'
else
  sleep 0.05
  echo '{"samples_per_s": 5, "after_start": null, "first_batch_s": 0.5}'
fi
)";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

// Returns the command lines of the processes in whose environment TMPDIR is `folder`, from their start on.
std::vector<std::string> processes_with(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  std::error_code ended;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ended)) {
    const std::string environment = '\0' + text_so_far(entry.path() / "environ");
    if (environment.find('\0' + ("TMPDIR=" + folder.string()) + '\0') != std::string::npos)
      found.push_back(text_so_far(entry.path() / "cmdline"));
  }
  return found;
}

// Returns how many of the attributes that `info --write-attributes` writes are there.
int attributes_in(const std::filesystem::path& path) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  int count = 0;
  for (const char* const name : {"mean", "std", "min", "max"})
    count += H5Aexists_by_name(file.get(), "images", name, H5P_DEFAULT) > 0 ? 1 : 0;
  return count;
}

// An array of .npy version 1.0 of (1000, 3, 32, 32) bytes.
std::vector<std::byte> npy() {
  std::string text("\x93NUMPY\x01\x00", 8);
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000, 3, 32, 32), }";
  header.resize(118, ' ');
  header.back() = '\n';
  text += std::string("\x76\x00", 2) + header + std::string(1000 * 3 * 32 * 32, 'x');
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

class Interruptions : public testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
    ASSERT_EQ(
        run_program(dir_.path(), {"generate", "a.h5", "--samples", "1500", "--shape", "3,32,32"}).exit_code,
        0);
    if (reads("images=images.npy")) replace_file(dir_ / "images.npy", npy());
    if (reads("imgs")) write_images(dir_ / "imgs");
    write_python(dir_ / "python");
    std::ofstream(dir_ / "in.json") << bench_result(1e4);
    inputs_ = names_in(dir_.path());
    input_ = file_bytes(dir_ / "a.h5");
    if (GetParam().resumes || GetParam().changes) images_ = read_through_libhdf5(dir_ / "a.h5", "images");
  }

  void TearDown() override { ::unsetenv("TMPDIR"); }

  static bool reads(const char* input) { return std::ranges::count(GetParam().arguments, input) > 0; }

  // Returns how long the command takes, and keeps what it writes.
  std::chrono::microseconds run_whole() {
    const auto start = Clock::now();
    const ProgramResult result = run_program(dir_.path(), GetParam().arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  }

  // Returns the names of what a run has left.
  std::vector<std::string> rest() const {
    std::vector<std::string> names = names_in(dir_.path());
    std::erase_if(names, [&](const std::string& name) { return std::ranges::count(inputs_, name) > 0; });
    return names;
  }

  void prepare() {
    const bool keeps_parts = GetParam().resumes && !std::filesystem::exists(dir_ / "out.h5");
    for (const std::string& name : rest()) {
      if (!keeps_parts || name.starts_with('.')) std::filesystem::remove_all(dir_ / name);
    }
    if (GetParam().changes) replace_file(dir_ / "a.h5", input_);
    temporary_before_ = names_in(temporary_.path());
  }

  bool is_complete(const std::string& output) const {
    if (output.ends_with(".json")) {
      std::ifstream file(dir_ / output);
      return nlohmann::json::accept(file);
    }
    if (output.ends_with(".html")) return text_of(dir_ / output).ends_with("</html>\n");
    return run_program(dir_.path(), {"check", output}).exit_code == 0;
  }

  // What may be left after a signal: outputs that were complete by then. SIGKILL may leave more, under names
  // that nobody takes for an output.
  void expect_no_part(int signal) const {
    if (signal != SIGKILL) {
      EXPECT_THAT(names_in(temporary_.path()), testing::IsSubsetOf(temporary_before_));
    }
    for (const std::string& name : rest()) {
      SCOPED_TRACE(name);
      if (name.starts_with("out")) {
        EXPECT_TRUE(is_complete(name));
      } else {
        EXPECT_EQ(signal, SIGKILL);
      }
    }
  }

  void expect_sound_input() const {
    const std::vector<std::byte> now = file_bytes(dir_ / "a.h5");
    if (!GetParam().changes || now == input_) {
      EXPECT_EQ(now, input_);
      return;
    }
    EXPECT_EQ(attributes_in(dir_ / "a.h5"), 4);
    EXPECT_EQ(read_through_libhdf5(dir_ / "a.h5", "images"), images_);
    EXPECT_TRUE(is_complete("a.h5"));
  }

  void expect_right_result() const {
    if (GetParam().resumes) {
      EXPECT_EQ(read_through_libhdf5(dir_ / "out.h5", "images"), images_);
    }
  }

  // A process that watches for the end of another notices it a little later.
  void expect_no_process() const {
    EXPECT_TRUE(wait_until([&] { return processes_with(temporary_.path()).empty(); }));
    EXPECT_THAT(processes_with(temporary_.path()), testing::IsEmpty());
  }

  // What killed runs have left in the temporary folder goes when the next one begins, but for folders that
  // they were just about to use, or to remove.
  void expect_next_run_to_clean_up() {
    const std::vector<std::string> left = temporary_before_;
    const auto is_there = [&](const std::string& name) {
      std::error_code none;
      return std::filesystem::exists(temporary_ / name) &&
             !std::filesystem::is_empty(temporary_ / name, none);
    };
    Program next(dir_.path(), GetParam().arguments);
    EXPECT_TRUE(wait_until([&] { return std::ranges::none_of(left, is_there); }));
    next.send(SIGTERM);
    next.wait();
  }

  const TempDir dir_;
  const TempDir temporary_;
  std::vector<std::string> inputs_;
  std::vector<std::string> temporary_before_;
  std::vector<std::byte> input_;
  std::vector<std::byte> images_;
};

TEST_P(Interruptions, at_any_moment_end_the_command_and_leave_no_part_of_an_output) {
  const Command& command = GetParam();
  const auto whole = run_whole();
  const std::vector<std::string> written = rest();
  const char* const wanted = std::getenv("H5FEED_TEST_KILLS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 3;
  const auto latest =
      wanted != nullptr ? whole : std::min<std::chrono::microseconds>(whole, kLatestInShortRuns);
  const char* const chosen = std::getenv("H5FEED_TEST_SEED");
  const auto seed =
      static_cast<std::uint32_t>(chosen != nullptr ? std::stoull(chosen) : std::random_device{}());
  SCOPED_TRACE("H5FEED_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::int64_t latest_us = latest.count();
  constexpr int kMostRuns = 60;
  int ended = 0;
  for (int i = 0; i < 3 * rounds || (ended == 0 && i < kMostRuns); ++i) {
    const int signal = std::array{SIGINT, SIGTERM, SIGKILL}[static_cast<std::size_t>(i % 3)];
    SCOPED_TRACE(signal);
    prepare();
    Program program(dir_.path(), command.arguments, {.timeout = std::chrono::seconds(60)});
    const auto moment = std::uniform_int_distribution<std::int64_t>(0, latest_us)(random);
    std::this_thread::sleep_for(std::chrono::microseconds(moment));
    program.send(signal);
    const ProgramResult result = program.wait();
    ASSERT_FALSE(result.timed_out) << "the signal was not obeyed";
    expect_no_process();
    expect_sound_input();
    if (result.exit_code == 0) {  // it was done before: runs have become shorter than the first
      latest_us = std::max(moment, std::int64_t{1});
      EXPECT_EQ(rest(), written);
      expect_right_result();
      continue;
    }
    ++ended;
    expect_no_part(signal);
    if (result.signal != 0) {  // also by SIGINT, before the program handles signals
      EXPECT_EQ(result.signal, signal);
    } else if (command.reports) {
      EXPECT_EQ(result.exit_code, 128 + signal);
    } else {
      EXPECT_EQ(signal, SIGINT);
      EXPECT_THAT(result.err, testing::HasSubstr("interrupted"));
    }
  }
  EXPECT_GT(ended, 0) << "no signal came in time";
  prepare();
  expect_next_run_to_clean_up();
  if (!command.resumes) return;
  prepare();
  run_whole();
  EXPECT_EQ(rest(), written);
  expect_right_result();
}

INSTANTIATE_TEST_SUITE_P(Each, Interruptions, testing::ValuesIn(commands()),
                         [](const auto& each) { return std::string(each.param.name); });

class KilledRun : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  const TempDir dir_;
  const TempDir temporary_;
};

TEST_F(KilledRun, of_monitor_leaves_a_folder_to_the_next_one) {
  const ProgramResult killed = run_program(dir_.path(), {"monitor", "--", "sh", "-c", "kill -KILL $PPID"});
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_THAT(names_in(temporary_.path()), testing::ElementsAre(testing::StartsWith("h5feed-stats-")));
  // A run that lives keeps its own, whatever ends meanwhile.
  const std::string other = std::string("H5FEED_STATS_FILE= '") + H5FEED_PROGRAM + "' monitor -- true";
  const ProgramResult next = run_program(
      dir_.path(), {"monitor", "--", "sh", "-c", other + " && ls \"${H5FEED_STATS_FILE%/*}/..\""});
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(lines_of(next.out), testing::ElementsAre(testing::StartsWith("h5feed-stats-")));
  EXPECT_THAT(names_in(temporary_.path()), testing::IsEmpty());
}

TEST_F(KilledRun, of_tune_leaves_a_folder_to_the_next_one) {
  ASSERT_EQ(
      run_program(dir_.path(), {"generate", "a.h5", "--samples", "300", "--shape", "3,16,16"}).exit_code, 0);
  Program program(dir_.path(), {"tune", "a.h5", "--time-budget", "60s"});
  const auto files = [&] {
    std::vector<std::string> names;
    std::error_code changing;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path(), changing))
      if (entry.path().extension() == ".h5") names.push_back(entry.path());
    return names;
  };
  ASSERT_TRUE(wait_until([&] { return !files().empty(); }));
  program.send(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  EXPECT_THAT(names_in(temporary_.path()), testing::ElementsAre(testing::StartsWith("h5feed-tune-")));
  // Whatever becomes of it otherwise.
  EXPECT_EQ(run_program(dir_.path(), {"tune", "a.h5", "--time-budget", "0.1ms"}).exit_code, 2);
  EXPECT_THAT(names_in(temporary_.path()), testing::IsEmpty());
}

#ifdef H5FEED_KILLING_WRITES
TEST_F(KilledRun, of_info_has_written_all_attributes_or_none_whenever_it_was_killed) {
  ASSERT_EQ(
      run_program(dir_.path(), {"generate", "b.h5", "--samples", "300", "--shape", "3,16,16"}).exit_code, 0);
  // This format marks a file while a writer has it open; a mark that stays makes libhdf5 refuse the file.
  ASSERT_EQ(run_program(dir_.path(), {"repack", "b.h5", "a.h5", "--filter", "none", "--libver", "latest"})
                .exit_code,
            0);
  const std::vector<std::byte> before = file_bytes(dir_ / "a.h5");
  const std::vector<std::byte> images = read_through_libhdf5(dir_ / "a.h5", "images");
  int number = 0;
  for (bool killed = true; killed; ++number) {
    SCOPED_TRACE(number);
    replace_file(dir_ / "a.h5", before);
    ::setenv("LD_PRELOAD", H5FEED_KILLING_WRITES, 1);
    ::setenv("H5FEED_TEST_KILLING_WRITE", std::to_string(number).c_str(), 1);
    const ProgramResult result = run_program(dir_.path(), {"info", "a.h5", "--stats", "--write-attributes"});
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("H5FEED_TEST_KILLING_WRITE");
    killed = result.signal == SIGKILL;
    EXPECT_TRUE(killed || result.exit_code == 0) << result.err;
    const ProgramResult checked = run_program(dir_.path(), {"check", "a.h5"});
    ASSERT_EQ(checked.exit_code, 0) << checked.err;
    const int attributes = attributes_in(dir_ / "a.h5");
    EXPECT_TRUE(attributes == 4 || (killed && attributes == 0)) << attributes;
    EXPECT_EQ(read_through_libhdf5(dir_ / "a.h5", "images"), images);
  }
  EXPECT_GT(number, 4) << "so many writes at least there were";
}
#endif

}  // namespace
}  // namespace h5feed::test
