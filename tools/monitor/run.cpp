// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "cuda/nvml/nvml.hpp"
#include "flow/verdict/stats_file.hpp"
#include "h5feed/error.hpp"
#include "tools/gpu/gpu_text.hpp"
#include "tools/monitor/exports.hpp"
#include "tools/monitor/findings.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"

namespace h5feed::cli {
namespace {

constexpr std::chrono::milliseconds kTick(20);
// Time that a command gets to end by itself before it is killed.
constexpr std::chrono::seconds kGrace(5);

// Returns the driver's library if it has at least one GPU; else null, with `why` set to one line.
std::shared_ptr<gpu::Nvml> load_nvml(std::string& why) {
  auto nvml = gpu::Nvml::load({}, why);
  if (nvml && nvml->count() > 0) return nvml;
  if (nvml) why = "the driver knows no GPU; check nvidia-smi";
  return nullptr;
}

// A terminal's Ctrl-C has already reached the command.
void pass_on(const WatchedProcess& process, int signal) {
  const bool from_terminal = signal == SIGINT && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
  if (!from_terminal) process.send(signal);
}

// Returns the GPU memory of a process and its descendants. Unset if the driver lists none of them: no such
// process uses the GPU, or, in a container, the driver lists the host's process numbers.
std::optional<std::uint64_t> bytes_of(const gpu::GpuReading& reading, pid_t ancestor) {
  std::optional<std::uint64_t> bytes;
  for (const gpu::GpuProcess& process : reading.processes) {
    if (process.used_bytes && descends_from(static_cast<pid_t>(process.pid), ancestor))
      bytes = bytes.value_or(0) + *process.used_bytes;
  }
  return bytes;
}

Json epochs_json(const std::vector<LoaderEpoch>& epochs) {
  Json all = Json::array();
  for (const LoaderEpoch& epoch : epochs) {
    all.push_back({{"pid", epoch.pid},
                   {"loader", epoch.loader},
                   {"epoch", epoch.epoch},
                   {"begin_s", epoch.begin_s},
                   {"end_s", epoch.end_s},
                   {"finished", epoch.finished},
                   {"samples", epoch.samples},
                   {"wait_share", epoch.wait_share},
                   {"bottleneck", epoch.bottleneck},
                   {"advice", epoch.advice}});
  }
  return all;
}

// Returns a variable of a process's environment, as it was at its start; empty if it is not known.
std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream in(fmt::format("/proc/{}/environ", pid));
  for (std::string entry; std::getline(in, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

StatsPlace::StatsPlace(std::optional<pid_t> watched, bool offer) {
  const char* const own = std::getenv(kStatsFileVariable);
  path_ = watched ? variable_of(*watched, kStatsFileVariable) : own != nullptr ? own : "";
  if (!path_.empty() || !offer) return;
  try {
    folder_.emplace(temporary_place(), "h5feed-stats");
  } catch (const FileError& error) {
    say(fmt::format("{}; TMPDIR names another folder: without one, what the loaders deliver is not shown",
                    error.what()));
    return;
  }
  path_ = folder_->path() / "loaders.jsonl";
  ::setenv(kStatsFileVariable, path_.c_str(), 1);
}

MonitorRun::MonitorRun(const MonitorArguments& arguments)
    : arguments_(arguments),
      interval_(std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::duration<double>(parse_real("--interval", arguments_.interval, 0.1, 86400)))) {
  std::optional<pid_t> pid;
  if (!arguments_.pid.empty()) pid = static_cast<pid_t>(parse_number("--pid", arguments_.pid, 1, INT32_MAX));
  for (const std::string& gpu : arguments_.gpus) check_gpu_name(gpu);
  std::optional<ListenAddress> listen;
  if (!arguments_.listen.empty()) listen = parse_listen(arguments_.listen);
  if (pid) process_ = WatchedProcess::running(*pid);
  check_places();
  find_gpus();
  lines_.emplace(arguments_.output);
  scalars_.emplace(arguments_.scalars);
  if (listen) server_.emplace(*listen);
  if (server_) say(fmt::format("metrics at {}", server_->url()));
  stats_.emplace(pid, has_command());
  RecorderSources sources{.stats_file = stats_->path()};
  if (gpus_) {
    for (const WatchedGpu& gpu : gpus_->gpus()) sources.gpus.push_back({gpu.index, gpu.name, gpu.pci_id});
  }
  start_ = Clock::now();
  recorder_.emplace(std::move(sources), std::chrono::duration<double>(interval_).count(),
                    seconds_since_1970(), now_ns());
  if (has_command()) process_ = WatchedProcess::start(arguments_.command, arguments_.trial.has_value());
  if (process_) use_.emplace(*process_, has_command());
}

void MonitorRun::check_places() const {
  std::set<std::filesystem::path> places;
  for (const std::string& path : {arguments_.output, arguments_.scalars, arguments_.trace}) {
    if (path.empty()) continue;
    // The trace appears whole in the end, under its name; lines are written as they come.
    if (path == arguments_.trace) {
      check_file_place(path);
    } else {
      check_place(path);
    }
    std::error_code ignored;
    if (!places.insert(std::filesystem::absolute(path, ignored).lexically_normal()).second)
      throw OptionError(fmt::format("{}: named for two outputs; give each a file of its own", path));
  }
}

int MonitorRun::go() {
  // The watched command decides when Ctrl-C has ended it; a second one must not cut off the output.
  const UnfinishedOutput unfinished;
  if (gpus_) gpus_->start(interval_);
  const int code = watch();
  if (gpus_) gpus_->stop();
  take_gpus();
  finish();
  // The command's exit code is returned whatever becomes of our lines.
  return !has_command() && (lines_->failed() || scalars_->failed() || trace_failed_) ? kFailed : code;
}

// A run must not be lost because a GPU is missing: records what is available.
void MonitorRun::find_gpus() {
  std::string why;
  if (auto nvml = load_nvml(why)) {
    gpus_.emplace(std::move(nvml), arguments_.gpus);
    return;
  }
  if (arguments_.trial) return;
  say(fmt::format("no GPU is watched{}, only processor, memory and storage: {}",
                  arguments_.gpus.empty() ? "" : fmt::format(" (--gpu {})", fmt::join(arguments_.gpus, ", ")),
                  why));
}

// Watches until the process ends, or until a signal if there is no command; returns the exit code.
int MonitorRun::watch() {
  Clock::time_point next = Clock::now();
  while (true) {
    take_gpus();
    if (process_) {
      if (const std::optional<int> code = process_->exit_code(); code && is_over()) return *code;
    }
    if (recorder_->ready() && Clock::now() >= next) {
      take_point();
      next = std::max(next + interval_, Clock::now());
    }
    greet();
    if (const int signal = take_noted_signal(); signal != 0) {
      if (!has_command()) return kDone;
      pass_on(*process_, signal);
      if (arguments_.trial) interrupted_by_ = signal;
    }
    if (trial_is_over()) end_command();
    std::this_thread::sleep_for(kTick);
  }
}

bool MonitorRun::trial_is_over() const {
  return arguments_.trial && (interrupted_by_ != 0 || Clock::now() - start_ >= arguments_.trial->time_limit);
}

// Whether nothing is left of a command that has ended: processes that it started may outlive it while they
// are told to end.
bool MonitorRun::is_over() { return !ended_at_ || !use_->alive() || Clock::now() - *ended_at_ > 2 * kGrace; }

// Tells the command and its descendants to end, and after a while kills them.
void MonitorRun::end_command() {
  if (!ended_at_) {
    ended_at_ = Clock::now();
    use_->send(SIGTERM);
  } else if (Clock::now() - *ended_at_ > kGrace) {
    use_->send(SIGKILL);
  }
}

// Called once there is something to see.
void MonitorRun::greet() {
  if (greeted_ || has_command() || recorder_->record().points.empty()) return;
  greeted_ = true;
  std::string watched = use_ ? fmt::format("process {}", process_->pid()) : "the machine";
  if (gpus_) {
    const std::size_t count = gpus_->gpus().size();
    watched = fmt::format("{} {}{}", count, count == 1 ? "GPU" : "GPUs", use_ ? " and " + watched : "");
  }
  say(fmt::format("watching {} every {} s; Ctrl-C ends", watched, arguments_.interval));
}

void MonitorRun::take_gpus() {
  if (!gpus_) return;
  for (const GpuSample& sample : gpus_->take()) {
    WatchedGpu& gpu = gpus_->gpus()[sample.gpu];
    gpu.add(sample.reading);
    recorder_->add(sample.gpu, sample.reading);
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

void MonitorRun::take_point() {
  Point point{.time_s = seconds_since(start_)};
  Json json = {{"time", seconds_since_1970()}};
  if (use_) {
    const std::optional<Json> reading = use_->read();
    if (!reading) return;  // the process has just ended
    json["process"] = *reading;
    use_->put_into(point);
  }
  point = recorder_->close(std::move(point));
  json.update(host_json(point));
  write(json);
  scalars_->write(scalars(recorder_->record(), point));
  if (server_) server_->set(prometheus_text(recorder_->record(), point));
  // Rows of the process or the machine would have other columns than those of the GPUs.
  if (!prints_live() || gpus_) return;
  if (use_) {
    print_live(ProcessUse::live_table(), use_->live_cells());
  } else {
    print_live(machine_table(), machine_cells(point));
  }
}

void MonitorRun::print_live(Table live, std::vector<std::string> cells) {
  live.add_row(std::move(cells));
  if (!std::exchange(headed_, true)) print(live.header_text());
  print(live.row_text(0));
}

void MonitorRun::write(const Json& json) {
  lines_->write(json);
  if (arguments_.json)
    print_line(printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + '\n');
}

// Output that cannot be written must not end the command that is watched: the first failure is said.
void MonitorRun::print_line(const std::string& line) {
  if (unprinted_) return;
  try {
    print(line);
  } catch (const FileError& error) {
    if (!has_command()) throw;
    unprinted_ = true;
    say(error.what());
  }
}

// Prints averages and findings, below the live rows or, with a command, away from its output.
void MonitorRun::finish() {
  recorder_->finish();
  const Diagnosis& diagnosis = diagnosis_.emplace(diagnose(recorder_->record()));
  Json summary = {{"summary", gpus_ ? gpus_->summary() : Json::array()}};
  if (use_) {
    use_->finish();
    summary["process"] = use_->summary(process_->exit_code());
  }
  summary["epochs"] = epochs_json(recorder_->record().epochs);
  summary.update(diagnosis.to_json());
  write(summary);
  if (!arguments_.trace.empty()) finish_trace(diagnosis);
  if (arguments_.json || arguments_.trial) return;
  std::string text = gpus_ ? gpus_->table().to_text() + "\n" : "";
  if (use_) text += use_->table().to_text() + "\n";
  text += diagnosis.to_text();
  if (has_command()) {
    text.pop_back();  // `say` ends the line
    say_lines(text);
  } else {
    print('\n' + text);
  }
}

void MonitorRun::finish_trace(const Diagnosis& diagnosis) {
  try {
    write_file(arguments_.trace, trace_text(recorder_->record(), diagnosis));
  } catch (const FileError& error) {
    trace_failed_ = true;
    say(error.what());
  }
}

}  // namespace h5feed::cli
