// SPDX-License-Identifier: Apache-2.0
// h5feed monitor on the tests' own NVML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/programs/fake_gpus.hpp"
#include "support/wait_until.hpp"

namespace h5feed::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Monitor : public Gpus {};

TEST_F(Monitor, writes_lines_while_a_command_runs_and_passes_on_its_exit_code) {
  // The command ends once the first readings of both GPUs are written.
  const ProgramResult result =
      run({"monitor", "--interval", "0.1", "-o", "run.jsonl", "--", "sh", "-c",
           "until [ \"$(grep -c pci_id run.jsonl)\" -ge 4 ]; do sleep 0.02; done; echo \"out $1\"; exit 7",
           "sh", "--not-ours"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out --not-ours\n") << "stdout belongs to the command";
  EXPECT_THAT(result.err, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(result.err, HasSubstr("Tesla T4"));

  const std::vector<json> lines = objects_in(content_of("run.jsonl"));
  ASSERT_GE(lines.size(), 5u);
  const json& first = lines.front();
  EXPECT_GT(first["time"], 1.6e9);
  for (const json& line : lines) {
    if (!line.contains("gpu") || line["gpu"] != 0) continue;
    EXPECT_EQ(line["pci_id"], "00000000:3B:00.0");
    EXPECT_EQ(line["busy"], 0.41);
    EXPECT_EQ(line["memory_used_bytes"], 700);
    EXPECT_EQ(line["power_w"], 350.5);
    EXPECT_EQ(line["processes"][0]["used_bytes"], 500);
    EXPECT_EQ(line["processes"][1]["used_bytes"], json());
  }
  const json& summary = lines.back()["summary"];
  EXPECT_EQ(lines.back()["process"]["exit_code"], 7);
  ASSERT_EQ(summary.size(), 2u);
  EXPECT_EQ(summary[0]["name"], "NVIDIA H200");
  EXPECT_NEAR(summary[0]["busy"].get<double>(), 0.41, 1e-9);
  EXPECT_EQ(summary[0]["peak_memory_used_bytes"], 700);
  EXPECT_EQ(summary[0]["hottest_c"], 54);
  EXPECT_EQ(summary[0]["energy_j"], 0);
  EXPECT_EQ(summary[1]["sm_active"], json()) << "no GPM";
}

TEST_F(Monitor, counts_the_gpu_memory_of_the_command_and_its_children) {
  // The fake names our own process as a user of the GPU: an ancestor, no descendant, of the command.
  const ScopedVariable pid("FAKE_NVML_pid", std::to_string(::getpid()));
  const std::string own = std::to_string(::getpid());
  ASSERT_EQ(run({"monitor", "--gpu", "0", "-o", "a.jsonl", "--", "sh", "-c",
                 "until grep -q pci_id a.jsonl; do sleep 0.02; done"})
                .exit_code,
            0);
  EXPECT_EQ(lines_with(content_of("a.jsonl"), "gpu").front()["watched_process_bytes"], json());

  Program watching(dir_.path(), {"monitor", "--gpu", "0", "-o", "b.jsonl", "--pid", own});
  watching.wait_for_stderr_line();
  watching.send(SIGTERM);
  EXPECT_EQ(watching.wait().exit_code, 0);
  EXPECT_EQ(lines_with(content_of("b.jsonl"), "gpu").front()["watched_process_bytes"], 500);
}

TEST_F(Monitor, alone_prints_rows_until_ctrl_c_and_then_the_averages) {
  Program program(dir_.path(), {"monitor", "--interval", "0.1"});
  program.wait_for_stderr_line();
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "watching 2 GPUs every 0.1 s; Ctrl-C ends\n");
  EXPECT_THAT(result.out, HasSubstr("41 %"));
  EXPECT_THAT(result.out, HasSubstr("peak used"));
  EXPECT_THAT(names_in(dir_.path()), ElementsAre());
}

TEST_F(Monitor, prints_json_lines_of_one_gpu) {
  Program program(dir_.path(), {"monitor", "--json", "--gpu", "0000:19:00.0"});
  program.wait_for_stderr_line();
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<json> lines = objects_in(result.out);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines.front()["gpu"], 1);
  EXPECT_EQ(lines.back()["summary"][0]["pci_id"], "00000000:19:00.0");
}

TEST_F(Monitor, ends_with_the_process_it_watches) {
  Program sleeper(dir_.path(), {"monitor"});
  sleeper.wait_for_stderr_line();
  Program watching(dir_.path(), {"monitor", "--pid", std::to_string(sleeper.pid())});
  watching.wait_for_stderr_line();
  sleeper.send(SIGINT);
  EXPECT_EQ(sleeper.wait().exit_code, 0);
  EXPECT_EQ(watching.wait().exit_code, 0);
}

TEST_F(Monitor, passes_on_signals_and_has_the_shells_code_for_them) {
  Program program(dir_.path(), {"monitor", "--", "sh", "-c", "echo started >&2; exec sleep 600"});
  program.wait_for_stderr_line();
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 128 + SIGTERM);
}

TEST_F(Monitor, leaves_its_command_the_usual_fate_of_a_closed_pipe) {
  EXPECT_EQ(run({"monitor", "--", "sh", "-c", "kill -PIPE $$; exit 0"}).exit_code, 128 + SIGPIPE);
}

TEST_F(Monitor, says_what_is_wrong_before_anything_is_started) {
  EXPECT_EQ(run({"monitor", "--pid", "1", "--", "touch", "started"}).err,
            "--pid and a command exclude each other; watch one of them\n");
  EXPECT_EQ(run({"monitor", "--interval", "0", "--", "touch", "started"}).exit_code, 2);
  EXPECT_EQ(run({"monitor", "--gpu", "2", "--", "touch", "started"}).exit_code, 2);
  EXPECT_EQ(run({"monitor", "-o", "none/run.jsonl", "--", "touch", "started"}).exit_code, 1);
  EXPECT_EQ(run({"monitor", "--"}).err, "-- is followed by no command; name one, or leave out the --\n");
  EXPECT_EQ(run({"monitor", "--pid", "2147483647"}).err, "--pid 2147483647: there is no such process\n");
  const ProgramResult unknown = run({"monitor", "--", "./no-such-program"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, StartsWith("./no-such-program cannot be started (No such file or directory)"));
  const ScopedVariable none("FAKE_NVML_gpus", "0");
  EXPECT_THAT(names_in(dir_.path()), ElementsAre());
  const ProgramResult without = run({"monitor", "--", "touch", "started"});
  EXPECT_EQ(without.exit_code, 0);
  EXPECT_THAT(without.err, HasSubstr("only processor, memory and storage: the driver knows no GPU"));
  EXPECT_THAT(names_in(dir_.path()), ElementsAre("started"));
}

// Fails without a driver unless a process is watched, whose figures need none.
class MonitorWithoutDriver : public Gpus {
 protected:
  const ScopedVariable none_{"H5FEED_NVML", "/no/such/libnvidia-ml.so.1"};
};

TEST_F(MonitorWithoutDriver, runs_the_command_records_it_and_returns_its_exit_code) {
  // Ends once it is on record with a process of its own and with what that has written.
  const ProgramResult result =
      run({"monitor", "--interval", "0.1", "-o", "run.jsonl", "--", "sh", "-c",
           "until grep -q '\"processes\":[2-9]' run.jsonl; do sleep 0.2; done; echo \"out $1\"; exit 7", "sh",
           "--not-ours"});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_EQ(result.out, "out --not-ours\n");
  EXPECT_THAT(result.err, StartsWith("no GPU is watched, only processor, memory and storage: NVML cannot be "
                                     "loaded (/no/such/libnvidia-ml.so.1: "));
  EXPECT_THAT(result.err, HasSubstr("peak memory"));

  const std::vector<json> lines = objects_in(content_of("run.jsonl"));
  ASSERT_GE(lines.size(), 2u);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_GT(lines[i]["time"], 1.6e9);
    const json& process = lines[i]["process"];
    EXPECT_GE(process["processes"], 1);
    EXPECT_TRUE(process["rss_bytes"].is_number_integer());
    EXPECT_TRUE(process["cpu_s"].is_number());
  }
  const json& summary = lines.back()["process"];
  EXPECT_EQ(lines.back()["summary"], json::array());
  EXPECT_EQ(summary["exit_code"], 7);
  EXPECT_GE(summary["most_processes"], 2);
  EXPECT_EQ(summary["pid"], lines.front()["process"]["pid"]);
  EXPECT_GT(summary["peak_rss_bytes"], 0);
  EXPECT_GE(summary["peak_rss_bytes"], lines.front()["process"]["rss_bytes"]);
  EXPECT_EQ(summary["readings"], lines.size() - 1);
}

TEST_F(MonitorWithoutDriver, counts_the_processor_time_of_a_command_that_ends_at_once) {
  const ProgramResult result = run({"monitor", "--interval", "60", "-o", "run.jsonl", "--", "sh", "-c",
                                    "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json summary = objects_in(content_of("run.jsonl")).back()["process"];
  EXPECT_GT(summary["cpu_s"], 0) << "from the kernel, since there was one reading at most";
  EXPECT_GT(summary["cpu_cores"], 0);
  EXPECT_NE(summary["peak_rss_bytes"], 0) << "null where it is not known";
}

TEST_F(MonitorWithoutDriver, tells_of_a_command_no_more_cores_than_there_are_and_not_its_own_memory) {
  constexpr std::uint64_t kMuchForAShell = 20'000'000;  // the program itself takes more
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run({"monitor", "-o", "run.jsonl", "--", "sh", "-c", "exit 0"}).exit_code, 0);
    const json summary = objects_in(content_of("run.jsonl")).back()["process"];
    EXPECT_LE(summary["cpu_cores"], std::max(1U, std::thread::hardware_concurrency()));
    EXPECT_NE(summary["peak_rss_bytes"], 0) << "null where it is not known";
    EXPECT_LT(summary["peak_rss_bytes"], kMuchForAShell);
  }
}

TEST_F(MonitorWithoutDriver, has_the_shells_code_for_signals_and_passes_on_each) {
  EXPECT_EQ(run({"monitor", "--", "sh", "-c", "kill -KILL $$"}).exit_code, 128 + SIGKILL);
  // The command takes the first signal as a message, and ends by the second.
  Program program(dir_.path(), {"monitor", "--", "sh", "-c",
                                "trap 'echo first >first' INT; trap 'exit 5' TERM; touch ready; "
                                "while true; do sleep 0.01; done"});
  const auto is_there = [&](const char* name) {
    return wait_until([&] { return std::filesystem::exists(dir_ / name); });
  };
  ASSERT_TRUE(is_there("ready"));
  program.send(SIGINT);
  ASSERT_TRUE(is_there("first"));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 5);
}

TEST_F(MonitorWithoutDriver, watches_a_process_that_runs_already) {
  Program watching(dir_.path(), {"monitor", "-o", "run.jsonl", "--pid", std::to_string(::getpid())});
  ASSERT_TRUE(wait_until([&] { return !lines_with(content_of("run.jsonl"), "process").empty(); }));
  watching.send(SIGTERM);
  const ProgramResult result = watching.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("cores busy"));
  EXPECT_EQ(objects_in(content_of("run.jsonl")).back()["process"]["exit_code"], json());
}

TEST_F(MonitorWithoutDriver, returns_the_commands_exit_code_where_its_lines_find_no_room_any_more) {
  const RunLimits few = {.file_bytes = 10};
  for (const int code : {0, 7}) {
    const ProgramResult result = run_program(
        dir_.path(), {"monitor", "-o", "run.jsonl", "--", "sh", "-c", "exit " + std::to_string(code)}, few);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_THAT(result.err, HasSubstr("run.jsonl: cannot be written any more; its last line may be cut\n"));
  }
  const ProgramResult unprinted =
      run_program(dir_.path(), {"monitor", "--json", "--", "sh", "-c", "exit 7"}, {.full_output = true});
  EXPECT_EQ(unprinted.exit_code, 7);
  EXPECT_THAT(unprinted.err, HasSubstr("standard output cannot be written (No space left on device)\n"));
  std::filesystem::remove(dir_ / "run.jsonl");
  const ProgramResult full = run({"monitor", "-o", "/dev/full", "--", "touch", "started"});
  EXPECT_EQ(full.exit_code, 1) << "known before anything is started";
  EXPECT_EQ(full.err, "/dev/full: cannot be written (No space left on device); choose another place\n");
  EXPECT_THAT(names_in(dir_.path()), ElementsAre());
}

TEST_F(MonitorWithoutDriver, refuses_what_names_no_gpu) {
  for (const std::string text : {"abc", "-1", "3B:00.0", "1.5"}) {
    const ProgramResult result = run({"monitor", "--gpu", text, "--", "touch", "started"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, "--gpu \"" + text +
                              "\": give a number of nvidia-smi, or a PCI address such as 00000000:3B:00.0\n");
  }
  EXPECT_THAT(names_in(dir_.path()), ElementsAre());
  for (const std::string text : {"0", "0000:3b:00.0"}) {
    const ProgramResult result = run({"monitor", "--gpu", text, "--", "true"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, StartsWith("no GPU is watched (--gpu " + text +
                                       "), only processor, memory and storage: NVML cannot be loaded ("));
  }
}

TEST_F(MonitorWithoutDriver, alone_watches_the_machine) {
  Program program(dir_.path(), {"monitor", "--interval", "0.1", "-o", "run.jsonl"});
  const auto has_rates = [&] {
    const std::vector<json> lines = lines_with(content_of("run.jsonl"), "machine");
    return !lines.empty() && lines.back()["machine"].contains("cpu_busy");
  };
  ASSERT_TRUE(wait_until(has_rates));
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, StartsWith("no GPU is watched, only processor, memory and storage: NVML cannot be "
                                     "loaded (/no/such/libnvidia-ml.so.1: "));
  EXPECT_THAT(result.err, HasSubstr("it comes with the NVIDIA driver"));
  EXPECT_THAT(result.err, HasSubstr("watching the machine every 0.1 s; Ctrl-C ends\n"));
  EXPECT_THAT(result.out, HasSubstr("page cache"));
  EXPECT_GT(lines_with(content_of("run.jsonl"), "machine").back()["machine"]["memory_used_bytes"], 0);
  EXPECT_EQ(run({"monitor", "--interval", "-1"}).exit_code, 2) << "wrong usage, whatever the machine has";
  EXPECT_EQ(run({"monitor", "--", "./no-such-program"}).exit_code, 1);
}

}  // namespace
}  // namespace h5feed::test
