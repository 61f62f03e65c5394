// SPDX-License-Identifier: Apache-2.0
// h5feed monitor: watches the GPUs and a process with its descendants, alone or while a command runs.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/files/file_descriptor.hpp"
#include "cuda/nvml/nvml.hpp"
#include "h5feed/error.hpp"
#include "store/write/staged_file.hpp"
#include "tools/gpu/gpu_text.hpp"
#include "tools/gpu/monitor_gpus.hpp"
#include "tools/gpu/monitor_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/watched_process.hpp"

namespace h5feed::cli {
namespace {

constexpr std::chrono::milliseconds kTick(20);

struct MonitorArguments {
  std::string interval = "1";
  std::string output;
  std::string pid;
  std::vector<std::string> gpus;
  std::vector<std::string> command;
  bool json = false;
};

// Returns the driver's library if it has at least one GPU; else null, with `why` set to one line.
std::shared_ptr<gpu::Nvml> load_nvml(std::string& why) {
  auto nvml = gpu::Nvml::load({}, why);
  if (nvml && nvml->count() > 0) return nvml;
  if (nvml) why = "the driver knows no GPU; check nvidia-smi";
  return nullptr;
}

/// File for lines of JSON. A full disk must not end the watched command: the first failure is reported and
/// remembered.
class LineFile {
 public:
  explicit LineFile(const std::string& path) : path_(path) {
    if (path.empty()) return;
    out_.open(path, std::ios::trunc);
    if (!out_) throw FileError(fmt::format("{}: cannot be written; choose another place", path));
  }
  void write(const Json& json) {
    if (!out_.is_open() || failed_) return;
    out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
    if (out_) return;
    failed_ = true;
    say(fmt::format("{}: cannot be written any more; its last line may be cut", path_));
  }
  bool failed() const noexcept { return failed_; }

 private:
  std::string path_;
  std::ofstream out_;
  bool failed_ = false;
};

// Checks, before anything is started, that the output file can be written while the command runs. It may be a
// device, or a named pipe that has a reader.
void check_place(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_other(path, ignored)) {
    StagedFile(path, true).probe(1);
    return;
  }
  // O_NONBLOCK: opening a named pipe must not wait for its reader.
  const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  // A device that is full refuses even nothing; a pipe and a terminal take nothing for nothing.
  if (fd.valid() && ::write(fd.get(), "", 0) == 0) return;
  const int error = errno;
  throw FileError(error == ENXIO && std::filesystem::is_fifo(path, ignored)
                      ? fmt::format("{}: nobody reads from it; start its reader first", path.string())
                      : fmt::format("{}: cannot be written ({}); choose another place", path.string(),
                                    std::strerror(error)));
}

class Run {
 public:
  explicit Run(const MonitorArguments& arguments)
      : arguments_(arguments),
        interval_(std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::duration<double>(parse_real("--interval", arguments_.interval, 0.1, 86400)))) {
    std::optional<pid_t> pid;
    if (!arguments_.pid.empty()) {
      pid = static_cast<pid_t>(parse_number("--pid", arguments_.pid, 1, INT32_MAX));
    }
    for (const std::string& gpu : arguments_.gpus) check_gpu_name(gpu);
    if (pid) process_ = WatchedProcess::running(*pid);
    if (!arguments_.output.empty()) check_place(arguments_.output);
    find_gpus(pid.has_value());
    lines_.emplace(arguments_.output);
    if (has_command()) process_ = WatchedProcess::start(arguments_.command);
    if (process_) use_.emplace(*process_, has_command());
  }

  int go() {
    // The watched command decides when Ctrl-C has ended it; a second one must not cut off the output.
    const UnfinishedOutput unfinished;
    if (gpus_) gpus_->start(interval_);
    const int code = watch();
    if (gpus_) gpus_->stop();
    take_gpus();
    finish();
    // The command's exit code is returned whatever becomes of our lines.
    return !has_command() && lines_->failed() ? kFailed : code;
  }

 private:
  bool has_command() const noexcept { return !arguments_.command.empty(); }

  // A run must not be lost because a GPU is missing: records what is available.
  void find_gpus(bool has_process) {
    std::string why;
    const auto nvml = load_nvml(why);
    if (nvml) {
      gpus_.emplace(nvml, arguments_.gpus);
    } else if (has_command() || has_process) {
      say(fmt::format(
          "no GPU is watched{}, only processor, memory and storage: {}",
          arguments_.gpus.empty() ? "" : fmt::format(" (--gpu {})", fmt::join(arguments_.gpus, ", ")), why));
    } else {
      throw DeviceError(
          fmt::format("{}; without a GPU, monitor watches a command (h5feed monitor -- COMMAND) or a "
                      "process (--pid N)",
                      why));
    }
  }

  // Watches until the process ends, or until a signal if there is no command; returns the exit code.
  int watch() {
    Clock::time_point next = Clock::now();
    while (true) {
      take_gpus();
      if (process_) {
        if (const std::optional<int> code = process_->exit_code()) return *code;
      }
      if (use_ && Clock::now() >= next) {
        take_process();
        next = std::max(next + interval_, Clock::now());
      }
      greet();
      if (const int signal = take_noted_signal(); signal != 0) {
        if (!has_command()) return kDone;
        pass_on(*process_, signal);
      }
      std::this_thread::sleep_for(kTick);
    }
  }

  // Called once there is something to see.
  void greet() {
    if (greeted_ || has_command()) return;
    const auto seen = [](const WatchedGpu& gpu) { return gpu.readings > 0; };
    if (gpus_ && !std::ranges::all_of(gpus_->gpus(), seen)) return;
    greeted_ = true;
    std::string watched = use_ ? fmt::format("process {}", process_->pid()) : "";
    if (gpus_) {
      const std::size_t count = gpus_->gpus().size();
      watched = fmt::format("{} {}{}", count, count == 1 ? "GPU" : "GPUs", use_ ? " and " + watched : "");
    }
    say(fmt::format("watching {} every {} s; Ctrl-C ends", watched, arguments_.interval));
  }

  // A terminal's Ctrl-C has already reached the command.
  static void pass_on(const WatchedProcess& process, int signal) {
    const bool from_terminal = signal == SIGINT && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
    if (!from_terminal) process.send(signal);
  }

  void take_gpus() {
    if (!gpus_) return;
    for (const GpuSample& sample : gpus_->take()) {
      WatchedGpu& gpu = gpus_->gpus()[sample.gpu];
      gpu.add(sample.reading);
      Json json = {{"time", sample.time_s}, {"gpu", gpu.index}, {"pci_id", gpu.pci_id}};
      json.update(reading_json(sample.reading));
      if (process_) {
        const std::optional<std::uint64_t> bytes = bytes_of(sample.reading, process_->pid());
        gpu.peak_process_bytes = std::max(gpu.peak_process_bytes, bytes);
        json["watched_process_bytes"] = bytes ? Json(*bytes) : Json();
      }
      write(json);
      if (prints_live()) print_live(GpuWatch::live_table(), GpuWatch::live_cells(gpu, sample.reading));
    }
  }

  void take_process() {
    const std::optional<Json> reading = use_->read();
    if (!reading) return;  // the process has just ended
    write({{"time", seconds_since_1970()}, {"process", *reading}});
    // The process's rows would have other columns than the GPUs' rows.
    if (prints_live() && !gpus_) print_live(ProcessUse::live_table(), use_->live_cells());
  }

  // Returns the GPU memory of a process and its descendants. Unset if the driver lists none of them: no such
  // process uses the GPU, or, in a container, the driver lists the host's process numbers.
  static std::optional<std::uint64_t> bytes_of(const gpu::GpuReading& reading, pid_t ancestor) {
    std::optional<std::uint64_t> bytes;
    for (const gpu::GpuProcess& process : reading.processes) {
      if (process.used_bytes && descends_from(static_cast<pid_t>(process.pid), ancestor)) {
        bytes = bytes.value_or(0) + *process.used_bytes;
      }
    }
    return bytes;
  }

  bool prints_live() const noexcept { return !arguments_.json && !has_command(); }

  void print_live(Table live, std::vector<std::string> cells) {
    live.add_row(std::move(cells));
    if (!std::exchange(headed_, true)) print(live.header_text());
    print(live.row_text(0));
  }

  void write(const Json& json) {
    lines_->write(json);
    if (arguments_.json) print_line(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
  }

  // Output that cannot be written must not end the command that is watched: the first failure is said.
  void print_line(const std::string& line) {
    if (unprinted_) return;
    try {
      print(line);
    } catch (const FileError& error) {
      if (!has_command()) throw;
      unprinted_ = true;
      say(error.what());
    }
  }

  // Prints the averages, below the live rows or, with a command, away from its output.
  void finish() {
    Json summary = {{"summary", gpus_ ? gpus_->summary() : Json::array()}};
    if (use_) {
      use_->finish();
      summary["process"] = use_->summary(process_->exit_code());
    }
    write(summary);
    if (arguments_.json) return;
    std::string text = gpus_ ? gpus_->table().to_text() : "";
    if (use_) text += (text.empty() ? "" : "\n") + use_->table().to_text();
    if (has_command()) {
      text.pop_back();  // `say` ends the line
      say(text);
    } else {
      print('\n' + text);
    }
  }

  const MonitorArguments& arguments_;
  const std::chrono::milliseconds interval_;
  std::optional<GpuWatch> gpus_;
  std::optional<LineFile> lines_;
  std::optional<WatchedProcess> process_;
  std::optional<ProcessUse> use_;
  bool unprinted_ = false;
  bool headed_ = false;
  bool greeted_ = false;
};

int monitor(const MonitorArguments& arguments) {
  if (!arguments.pid.empty() && !arguments.command.empty()) {
    throw OptionError("--pid and a command exclude each other; watch one of them");
  }
  return Run(arguments).go();
}

}  // namespace

void add_monitor(CLI::App& app, Action& action, std::vector<std::string> watched_command) {
  auto arguments = std::make_shared<MonitorArguments>();
  arguments->command = std::move(watched_command);
  CLI::App* const command =
      app.add_subcommand("monitor", "Watch the GPUs, and the resources that a command or process uses");
  command->add_option("--interval", arguments->interval, "Seconds between readings, from 0.1")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "Write a line of JSON for each reading to FILE")
      ->type_name("FILE");
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
A process is measured with all its descendants: busy cores, memory (shared pages count for each process), bytes
read from and written to storage.
busy: share of time in which any kernel ran, however small. SMs, tensor, memory: share of the GPU that worked
(NVML's GPM, Hopper and later). GPUs need NVIDIA's driver; H5FEED_NVML names its libnvidia-ml.so.1 if it is not
in the default location.

Examples:
  h5feed monitor --interval 5
  h5feed monitor --interval 0.5 -o run.jsonl -- ./train --epochs 3
  h5feed monitor --pid 4242 --json)");
  command->callback([arguments, &action] { action = [arguments] { return monitor(*arguments); }; });
}

}  // namespace h5feed::cli
