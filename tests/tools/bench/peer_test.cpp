// SPDX-License-Identifier: Apache-2.0
// h5feed bench --peer: the rows of the comparison, and what is said where Python lacks something.
// A small program stands in for Python, so that neither PyTorch nor h5py is needed here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/files/file_text.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/wait_until.hpp"
#include "tools/bench/peer.hpp"

namespace h5feed::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// What a script says of itself: the versions of two packages, null for one that is missing.
std::string described(const std::string& torch, const std::string& h5py, const std::string& ways = "") {
  return R"({"python": "3.11.2", "modules": {"torch": {"version": )" + torch +
         R"(, "pip": "torch", "apt": "python3-torch", "problem": ""}, "h5py": {"version": )" + h5py +
         R"(, "pip": "h5py", "apt": "python3-h5py", "problem": ""}}, "ways": [)" + ways + "]}";
}

std::string way(const std::string& mode, const std::string& order, const std::string& flags = "") {
  std::string text =
      R"({"mode": ")" + mode + R"(", "name": "reader, )" + mode + R"(", "order": ")" + order + '"';
  for (const std::string flag : {"same_order", "converts", "slow_start"})
    text += ", \"" + flag + "\": " + (flags.find(flag) == std::string::npos ? "false" : "true");
  return text + '}';
}

std::string complete(const std::string& order) {
  return described(R"("1.13.0")", R"("3.7.0")", way("per_sample", "full") + ", " + way("tuned", order));
}

// A program that answers as the scripts do: `description` where it is asked for that, else what `per_sample`,
// `tuned` or `convert` print. It writes down the settings it was given.
void write_python(const TempDir& dir, const std::string& description, const std::string& per_sample = "",
                  const std::string& tuned = "", const std::string& convert = "") {
  const std::filesystem::path path = dir / "python";
  std::ofstream out(path);
  out << "#!/bin/sh\n"
      << "if [ \"$2\" = describe ]; then echo '" << description << "'; exit 0; fi\n"
      << "printf '%s %s %s %s %s %s\\n' \"$2\" \"$3\" \"$4\" \"$5\" \"$6\" \"${1##*/}\" >>asked\n"
      << "folder=${1%/*}\n"
      << "if [ \"$2\" = convert ]; then " << (convert.empty() ? "exit 1" : convert) << "; exit; fi\n"
      << "case $3 in\n"
      << "*per_sample*) " << per_sample << ";;\n"
      << "*tuned*) " << tuned << ";;\n"
      << "esac\n";
  out.close();
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

std::string answer(double samples_per_s, double first_batch_s = 0.5) {
  return "echo '{\"samples_per_s\": " + std::to_string(samples_per_s) +
         ", \"after_start\": null, \"first_batch_s\": " + std::to_string(first_batch_s) + "}'";
}

void write_peer_samples(const TempDir& dir) {
  ASSERT_EQ(
      run_program(dir.path(), {"generate", "a.h5", "--samples", "640", "--shape", "3,16,16", "--chunk", "64"})
          .exit_code,
      0);
}

ProgramResult compare(const TempDir& dir, const std::vector<std::string>& options,
                      const std::string& peers = "pytorch") {
  std::vector<std::string> arguments = {"bench", "a.h5", "--peer", peers, "--python", "./python"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(dir.path(), arguments);
}

void expect_refused(const TempDir& dir, const std::string& error, const std::string& peers = "pytorch") {
  const ProgramResult result = compare(dir, {}, peers);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, error);
}

TEST(BenchPeer, names_the_packages_that_python_lacks_and_how_to_install_them) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, described("null", "null"));
  expect_refused(
      dir,
      "--peer pytorch: ./python has no torch and h5py; install it: apt-get install python3-torch "
      "python3-h5py (or: ./python -m pip install torch h5py), or name another: --python PROGRAM\n");

  write_python(dir, described(R"("1.13.0")", "null"));
  expect_refused(
      dir,
      "--peer pytorch: ./python has no h5py; install it: apt-get install python3-h5py (or: ./python -m "
      "pip install h5py), or name another: --python PROGRAM\n");
}

TEST(BenchPeer, says_where_there_is_no_python) {
  const TempDir dir;
  write_peer_samples(dir);
  expect_refused(
      dir,
      "--peer pytorch: ./python was not found; install it: apt-get install python3, or name another: "
      "--python PROGRAM\n");
}

TEST(BenchPeer, says_what_keeps_an_installed_package_from_being_used) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, R"({"python": "3.11.2", "modules": {"ffcv": {"version": null, "pip": "ffcv", "apt": "", )"
                    R"("problem": "AttributeError: no numpy.product"}}, "ways": []})");
  expect_refused(
      dir,
      "--peer ffcv: ./python has no usable ffcv (ffcv: AttributeError: no numpy.product); install it: "
      "./python -m pip install ffcv, or name another: --python PROGRAM\n",
      "ffcv");
}

// The files of every script are in the folder, and h5feed's order where a way asks for it.
TEST(BenchPeer, gives_several_peers_the_order_of_an_epoch_and_a_folder_for_their_copies) {
  const TempDir dir;
  write_peer_samples(dir);
  std::filesystem::create_directory(dir / "scratch");
  write_python(
      dir,
      described("\"1\"", "\"1\"",
                way("per_sample", "full", "converts slow_start") + ", " + way("tuned", "full", "same_order")),
      "[ -f $folder/ffcv/copy ] || exit 1; " + answer(5),
      "ls $folder >names; od -An -v -td8 -w8 $folder/order.i64 >numbers; " + answer(7),
      "mkdir $folder/ffcv && : >$folder/ffcv/copy && echo '{\"seconds\": 2, \"bytes\": 3000}'");
  const ProgramResult result = compare(dir,
                                       {"--shuffle", "full", "--runs", "1", "--warmup", "0", "--num-workers",
                                        "0", "--time-budget", "100ms", "--scratch", "scratch", "--json"},
                                       "ffcv");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json.at("rows").size(), 3U);
  EXPECT_EQ(json.at("rows")[0].at("samples_per_s"), 5);
  EXPECT_EQ(json.at("rows")[2].at("samples_per_s"), 7);
  EXPECT_EQ(json.at("rows")[2].at("same_order"), true);
  EXPECT_EQ(json.at("conversions").at("ffcv").at("bytes"), 3000);
  EXPECT_THAT(text_so_far(dir / "names"), AllOf(HasSubstr("harness.py"), HasSubstr("ffcv_peer.py")));
  const std::vector<std::string> numbers = lines_of(text_so_far(dir / "numbers"));
  EXPECT_EQ(std::set<std::string>(numbers.begin(), numbers.end()).size(), 640U) << "each sample once";
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_TRUE(std::filesystem::is_empty(dir / "scratch")) << "nothing is left behind";
}

TEST(BenchPeer, goes_on_without_the_rows_whose_samples_cannot_be_converted) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(
      dir, described("\"1\"", "\"1\"", way("per_sample", "full", "converts") + ", " + way("tuned", "full")),
      answer(5), answer(7), R"(echo '{"error": "no room for strings"}')");
  const ProgramResult result = compare(
      dir, {"--runs", "1", "--warmup", "0", "--num-workers", "0", "--time-budget", "100ms"}, "litdata");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("per_sample, num_workers=0: converting the samples: no room for strings\n"));
  EXPECT_THAT(result.out, ContainsRegex("tuned +full +0 +7 "));
  EXPECT_EQ(lines_of(text_so_far(dir / "asked")).size(), 2U) << "one conversion, one row";
}

TEST(BenchPeer, needs_a_folder_for_its_scripts) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("sequential"));
  const ProgramResult result = compare(dir, {"--scratch", "nothing"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "nothing: cannot be written: No such file or directory; --scratch names another folder\n");
}

TEST(BenchPeer, takes_medians_of_alternating_repetitions) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("chunk:4"), answer(256), answer(512, 0.25));
  ProgramResult result;
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::filesystem::remove(dir / "asked");
    result =
        compare(dir, {"--target", "labels", "--shuffle", "chunk:4", "--num-workers", "0,2", "--batch-size",
                      "64", "--runs", "3", "--warmup", "1", "--time-budget", "400ms", "--json"});
    // On a busy machine the stand-in for Python may take seconds to start.
    if (result.err.find(" repetitions of a row fit --time-budget") == std::string::npos) break;
  }
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("peer").at("torch"), "1.13.0");
  EXPECT_EQ(json.at("settings").at("batch_size"), 64);
  EXPECT_EQ(json.at("settings").at("shuffle"), "chunk:4");
  EXPECT_EQ(json.at("settings").at("page_cache"), "warm");
  EXPECT_GT(json.at("settings").at("cache_bytes"), 0);
  ASSERT_EQ(json.at("rows").size(), 6U);
  double best = 0;
  for (const Json& row : json.at("rows")) {
    EXPECT_EQ(row.at("repetitions").size(), 3U) << "the first round is a warm-up";
    EXPECT_TRUE(row.at("error").is_null());
    const std::string loader = row.at("loader");
    if (loader == "h5feed") {
      best = std::max(best, row.at("samples_per_s").get<double>());
      EXPECT_GT(row.at("share_of_limit"), 0);
      EXPECT_EQ(row.at("order"), "chunk:4");
      EXPECT_LE(row.at("slowest"), row.at("samples_per_s"));
      EXPECT_GE(row.at("fastest"), row.at("samples_per_s"));
    } else if (loader == "reader, per_sample") {
      EXPECT_EQ(row.at("samples_per_s"), 256);
      EXPECT_EQ(row.at("order"), "full") << "as the script says";
    } else {
      EXPECT_EQ(loader, "reader, tuned");
      EXPECT_EQ(row.at("first_batch_s"), 0.25);
      EXPECT_EQ(row.at("samples_per_s"), 512);
      EXPECT_EQ(row.at("order"), "chunk:4");
    }
  }
  EXPECT_DOUBLE_EQ(json.at("ratios").at("per_sample"), best / 256);
  EXPECT_DOUBLE_EQ(json.at("ratios").at("tuned"), best / 512);

  const std::vector<std::string> asked = lines_of(text_so_far(dir / "asked"));
  ASSERT_EQ(asked.size(), 16U) << "two ways, two numbers of workers, four rounds";
  const Json first =
      Json::parse(asked[0].substr(asked[0].find('{'), asked[0].find('}') + 1 - asked[0].find('{')));
  EXPECT_EQ(first.at("mode"), "per_sample");
  EXPECT_EQ(first.at("order"), "chunk:4");
  EXPECT_EQ(first.at("num_workers"), 0);
  EXPECT_EQ(first.at("batch_size"), 64);
  EXPECT_DOUBLE_EQ(first.at("seconds"), 0.1);
  EXPECT_THAT(asked[0], ::testing::EndsWith(" a.h5 /images /labels pytorch_peer.py"));
  EXPECT_THAT(asked[1], HasSubstr("\"tuned\""));
  EXPECT_THAT(asked[4], HasSubstr("\"per_sample\"")) << "the second round goes through all rows again";
}

TEST(BenchPeer, gives_the_peer_the_usual_settings_and_prints_how_often_it_fits) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("sequential"), answer(1), answer(2e9));
  const ProgramResult result = compare(dir, {"--runs", "1", "--warmup", "0", "--time-budget", "100ms"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("loader "));
  EXPECT_THAT(result.out, ContainsRegex("reader, per_sample +full +4 +1 +1 +1 +- +0.5 s +[0-9.e+]+ x"));
  EXPECT_THAT(result.out,
              ContainsRegex("\nh5feed +sequential +0( +[0-9,]+){3} +(-|[0-9,]+) +[0-9.e-]+ s *\n"));
  EXPECT_THAT(result.out,
              ContainsRegex("is [0-9.e+]+ x reader, per_sample at its best \\(num_workers=4\\)\n"));
  EXPECT_THAT(result.out, HasSubstr("tuned at its best (num_workers=4): the peer is faster here\n"));
  const std::vector<std::string> asked = lines_of(text_so_far(dir / "asked"));
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_THAT(asked[0], HasSubstr("\"num_workers\":4,\"batch_size\":512"));
}

TEST(BenchPeer, shows_a_file_that_the_peer_cannot_read_as_such) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("sequential"), R"(echo '{"error": "no filter 32004"}')", "exit 3");
  const ProgramResult result = compare(
      dir, {"--runs", "2", "--num-workers", "0", "--time-budget", "100ms", "--export-json", "r.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("per_sample +full +0 +failed"));
  EXPECT_THAT(result.out, HasSubstr("\nreader, per_sample, num_workers=0: no filter 32004\n"));
  EXPECT_THAT(result.out, HasSubstr("tuned, num_workers=0: ./python ended without a result (exit code 3)\n"));
  EXPECT_EQ(lines_of(text_so_far(dir / "asked")).size(), 2U) << "what failed once is not tried again";
  const Json json = Json::parse(text_of(dir / "r.json"));
  EXPECT_TRUE(json.at("ratios").at("tuned").is_null());
}

// Dead, or dead and not yet waited for by whoever inherited it.
bool has_ended(const std::string& pid) {
  const std::string text = text_so_far("/proc/" + pid + "/stat");
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos || text.compare(name_end + 2, 1, "Z") == 0;
}

TEST(BenchPeer, kills_a_peer_that_does_not_end_and_all_that_it_started) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("sequential"), "trap '' TERM; sleep 600 & echo $! >worker; wait; wait",
               answer(1));
  const ProgramResult result =
      compare(dir, {"--runs", "1", "--warmup", "0", "--num-workers", "0", "--time-budget", "100ms"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("per_sample +full +0 +failed"));
  EXPECT_THAT(result.out, ContainsRegex("per_sample, num_workers=0: ./python did not end within [0-9.]+ s, "
                                        "[0-9.]+ s to start included, and was killed"));
  EXPECT_THAT(result.out, ContainsRegex("tuned +sequential +0 +1 ")) << "the others go on";
  const std::vector<std::string> worker = lines_of(text_of(dir / "worker"));
  ASSERT_EQ(worker.size(), 1U);
  EXPECT_TRUE(has_ended(worker.front()));
}

TEST(BenchPeer, takes_python_along_where_it_is_killed) {
  if (std::system("python3 -c 'import ctypes' 2>/dev/null") != 0) GTEST_SKIP() << "there is no Python";
  const TempDir dir;
  write_peer_samples(dir);
  std::ofstream(dir / "waiting.py") << R"(
import sys, time
sys.path.insert(0, sys.argv.pop(1))
import harness

class Peer:
    def ways(self, order):
        open("waiting", "w").close()
        time.sleep(120)

harness.main(Peer(), arguments=["ways", "full"])
)";
  std::ofstream(dir / "python") << "#!/bin/sh\nexec python3 waiting.py \"${1%/*}\"\n";
  std::filesystem::permissions(dir / "python", std::filesystem::perms::owner_all);
  Program program(dir.path(), {"bench", "a.h5", "--peer", "pytorch", "--python", "./python"},
                  {.timeout = std::chrono::seconds(60)});
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(dir / "waiting"); }, std::chrono::seconds(40)));
  program.send(SIGKILL);
  // It has the program's output open.
  EXPECT_FALSE(program.wait().timed_out);
}

TEST(BenchPeer, leaves_out_repetitions_where_starting_python_takes_longer_than_measuring) {
  cli::BenchSettings settings;
  settings.warmup = 1;
  settings.runs = 3;
  const auto rounds = [&](std::chrono::milliseconds budget, std::chrono::milliseconds start) {
    settings.time_budget = budget;
    const cli::PeerRounds chosen = cli::peer_rounds(settings, start);
    return std::pair(chosen.all, chosen.counted);
  };
  using std::chrono::milliseconds;
  EXPECT_EQ(rounds(milliseconds(300), milliseconds(100)), std::pair(4UL, 3UL));
  EXPECT_EQ(rounds(milliseconds(300), milliseconds(3000)), std::pair(1UL, 1UL));
  EXPECT_EQ(rounds(milliseconds(300), milliseconds(60000)), std::pair(1UL, 1UL));
  EXPECT_EQ(rounds(milliseconds(12000), milliseconds(3000)), std::pair(4UL, 3UL));
  EXPECT_EQ(rounds(milliseconds(12000), milliseconds(8000)), std::pair(3UL, 3UL));
}

TEST(BenchPeer, refuses_more_worker_processes_than_the_machine_holds) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("sequential"), answer(1), answer(1));
  const ProgramResult result = compare(dir, {"--num-workers", "1024", "--time-budget", "100ms"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("for this machine ("));
  EXPECT_EQ(lines_of(text_so_far(dir / "asked")).size(), 0U);
}

TEST(BenchPeer, refuses_what_the_peer_has_no_counterpart_of) {
  const TempDir dir;
  write_peer_samples(dir);
  write_python(dir, complete("sequential"));
  const auto refused = [&](const std::vector<std::string>& options) {
    const ProgramResult result = compare(dir, options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(refused({"--on-error", "skip"}), "--peer compares whole files; leave out --on-error\n");
  EXPECT_EQ(refused({"--normalize"}), "--peer compares stored values; leave out --normalize\n");
  EXPECT_EQ(refused({"--batch-size", "none"}), "--peer compares batches; give --batch-size a number\n");
  const ProgramResult unknown = run_program(dir.path(), {"bench", "a.h5", "--peer", "pytorch,webdataset"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err, "--peer \"webdataset\" is not known; it takes pytorch, spdl, dali, litdata, ffcv\n");
}

}  // namespace
}  // namespace h5feed::test
