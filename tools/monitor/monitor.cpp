// SPDX-License-Identifier: Apache-2.0
// h5feed monitor: watches GPUs, machine, a process with its descendants and its loaders, alone or while a
// command runs, and names what is wrong.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "tools/monitor/run.hpp"
#include "tools/program/commands.hpp"

namespace h5feed::cli {
namespace {

int monitor(const MonitorArguments& arguments) {
  if (!arguments.pid.empty() && !arguments.command.empty()) {
    throw OptionError("--pid and a command exclude each other; watch one of them");
  }
  return MonitorRun(arguments).go();
}

}  // namespace

void add_monitor(CLI::App& app, Action& action, std::vector<std::string> watched_command) {
  auto arguments = std::make_shared<MonitorArguments>();
  arguments->command = std::move(watched_command);
  CLI::App* const command = app.add_subcommand(
      "monitor", "Watch GPUs, machine, a command or process and its loaders; name what is wrong");
  command->add_option("--interval", arguments->interval, "Seconds between readings, from 0.1")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "Write a line of JSON for each reading to FILE")
      ->type_name("FILE");
  command
      ->add_option("--scalars", arguments->scalars,
                   "Write a flat line of numbers for each reading to FILE, for the loggers of trainings")
      ->type_name("FILE");
  command->add_option("--trace", arguments->trace, "Write a timeline for Perfetto to FILE in the end")
      ->type_name("FILE");
  command
      ->add_option(
          "--listen", arguments->listen,
          "Serve the last reading to Prometheus at /metrics of [ADDRESS:]PORT; the loopback by default")
      ->type_name("[ADDRESS:]PORT");
  command->add_option("--pid", arguments->pid, "Watch this process, until it ends")->type_name("N");
  command
      ->add_option("--gpu", arguments->gpus,
                   "Watch only this GPU, by PCI address or number of nvidia-smi; may be repeated")
      ->type_name("GPU");
  command->add_flag("--json", arguments->json, "Print the lines of JSON instead of tables");
  command->footer(
      R"(The words after -- are started as a command, with or without a GPU; signals are forwarded to it. The exit code is
the command's: 128 + N if signal N ended it, 1 if it cannot be started or the file of -o cannot be written. The
summary goes to stderr.
In the end it names what it found: a starved GPU, a fall of its use and what changed with it, one silent among
several, pauses at a period or between epochs, memory that rises, lowered clocks, storage at its limit, an average
below 15 %; with what to try. Loaders of h5feed in the watched processes tell how long the training waited.
A process is measured with all its descendants: busy cores, memory (shared pages count for each process), bytes
read from and written to storage.
busy: share of time in which any kernel ran, however small. SMs, tensor, memory: share of the GPU that worked
(NVML's GPM, Hopper and later). GPUs need NVIDIA's driver; H5FEED_NVML names its libnvidia-ml.so.1 if it is not
in the default location.

Examples:
  h5feed monitor --interval 5
  h5feed monitor --interval 0.5 -o run.jsonl -- ./train --epochs 3
  h5feed monitor --scalars run.jsonl --trace run.json -- python train.py
  h5feed monitor --listen 9400
  h5feed monitor --pid 4242 --json)");
  command->callback([arguments, &action] { action = [arguments] { return monitor(*arguments); }; });
}

}  // namespace h5feed::cli
