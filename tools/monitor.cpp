// h5feed monitor: watches the GPUs, alone or while a command runs.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "cuda/gpu_monitor.hpp"
#include "cuda/nvml.hpp"
#include "h5feed/error.hpp"
#include "store/staged_file.hpp"
#include "tools/cli.hpp"
#include "tools/commands.hpp"
#include "tools/gpu_text.hpp"
#include "tools/interrupt.hpp"
#include "tools/option_text.hpp"
#include "tools/output.hpp"
#include "tools/watched_process.hpp"

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

/// One reading on its way from a monitor's thread to the program's.
struct Sample {
  std::size_t gpu = 0;  // among the watched ones
  double time_s = 0;    // since 1970
  gpu::GpuReading reading;
};

class Inbox {
 public:
  void put(Sample sample) {
    const std::lock_guard lock(mutex_);
    samples_.push_back(std::move(sample));
  }
  std::vector<Sample> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(samples_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Sample> samples_;
};

/// One watched GPU, and what its readings come to.
struct WatchedGpu {
  unsigned index = 0;  // as NVML counts
  std::string name;
  std::string pci_id;
  SeenValues busy, sm_active, tensor_active, dram_active, pcie_received, power_w;
  std::optional<double> hottest_c, first_energy_j, last_energy_j;
  std::optional<std::uint64_t> peak_memory_bytes, peak_command_bytes;
  std::uint64_t throttle_reasons = 0;
  std::uint64_t readings = 0;

  void add(const gpu::GpuReading& reading) {
    ++readings;
    const auto count = [](SeenValues& values, const std::optional<double>& value) {
      if (value) values.add(*value);
    };
    count(busy, reading.busy);
    count(sm_active, reading.sm_active);
    count(tensor_active, reading.tensor_active);
    count(dram_active, reading.dram_active);
    count(pcie_received, reading.pcie_received_bytes_per_s);
    count(power_w, reading.power_w);
    // An empty optional is less than any value.
    hottest_c = std::max(hottest_c, reading.temperature_c);
    peak_memory_bytes = std::max(peak_memory_bytes, reading.memory_used_bytes);
    if (!first_energy_j) first_energy_j = reading.energy_j;
    if (reading.energy_j) last_energy_j = reading.energy_j;
    throttle_reasons |= reading.throttle_reasons.value_or(0);
  }

  std::optional<double> energy_j() const {
    return first_energy_j && last_energy_j ? std::optional(*last_energy_j - *first_energy_j) : std::nullopt;
  }
};

std::shared_ptr<gpu::Nvml> load_nvml() {
  std::string why;
  auto nvml = gpu::Nvml::load({}, why);
  if (!nvml) throw DeviceError(why);
  if (nvml->count() == 0) throw DeviceError("the driver knows no GPU; check nvidia-smi");
  return nvml;
}

std::vector<WatchedGpu> choose(const gpu::Nvml& nvml, const std::vector<std::string>& wanted) {
  std::vector<unsigned> indices;
  for (const std::string& text : wanted) {
    const auto by_address = nvml.find(text);
    const unsigned index =
        by_address ? *by_address : static_cast<unsigned>(parse_number("--gpu", text, 0, nvml.count() - 1));
    if (std::ranges::find(indices, index) == indices.end()) indices.push_back(index);
  }
  if (wanted.empty()) {
    for (unsigned i = 0; i < nvml.count(); ++i) indices.push_back(i);
  }
  std::vector<WatchedGpu> gpus;
  for (const unsigned index : indices) {
    gpus.push_back({.index = index, .name = nvml.name(index), .pci_id = nvml.pci_id(index)});
  }
  return gpus;
}

/// Where lines of JSON go. A full disk must not end the command that is watched: the first failure is said
/// and remembered.
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

std::chrono::milliseconds interval_of(const MonitorArguments& arguments) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(parse_real("--interval", arguments.interval, 0.1, 86400)));
}

std::optional<WatchedProcess> running_process(const MonitorArguments& arguments) {
  if (arguments.pid.empty()) return std::nullopt;
  return WatchedProcess::running(static_cast<pid_t>(parse_number("--pid", arguments.pid, 1, INT32_MAX)));
}

// That a file which grows while the command runs can be written, before anything is started. It may be a
// device, or a named pipe that someone reads.
void check_place(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_other(path, ignored)) {
    StagedFile(path, true).probe(1);
    return;
  }
  // O_NONBLOCK: opening a named pipe must not wait for its reader.
  const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.valid()) return;
  const int error = errno;
  throw FileError(error == ENXIO && std::filesystem::is_fifo(path, ignored)
                      ? fmt::format("{}: nobody reads from it; start its reader first", path.string())
                      : fmt::format("{}: cannot be written ({}); choose another place", path.string(),
                                    std::strerror(error)));
}

// Wrong usage is told whatever GPUs there are.
void check_arguments(const MonitorArguments& arguments) {
  if (!arguments.pid.empty() && !arguments.command.empty()) {
    throw OptionError("--pid and a command exclude each other; watch one of them");
  }
  interval_of(arguments);
  running_process(arguments);
  if (!arguments.output.empty()) check_place(arguments.output);
}

class Run {
 public:
  Run(const MonitorArguments& arguments, std::shared_ptr<gpu::Nvml> nvml)
      : arguments_(arguments),
        nvml_(std::move(nvml)),
        gpus_(choose(*nvml_, arguments.gpus)),
        lines_(arguments.output) {}

  int go() {
    const auto interval = interval_of(arguments_);
    std::optional<WatchedProcess> process = running_process(arguments_);
    if (!arguments_.command.empty()) process = WatchedProcess::start(arguments_.command);
    // The watched command decides when Ctrl-C has ended it; no second one may cut the lines off.
    const UnfinishedOutput unfinished;

    int code = kDone;
    {
      std::vector<std::unique_ptr<gpu::GpuMonitor>> monitors;
      for (std::size_t i = 0; i < gpus_.size(); ++i) {
        monitors.push_back(std::make_unique<gpu::GpuMonitor>(nvml_, gpus_[i].index, interval,
                                                             [this, i](const gpu::GpuReading& reading) {
                                                               inbox_.put({i, seconds_since_1970(), reading});
                                                             }));
      }
      code = watch(process);
    }
    take_in(process);
    finish();
    return code == kDone && lines_.failed() ? kFailed : code;
  }

 private:
  static double seconds_since_1970() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  bool has_command() const noexcept { return !arguments_.command.empty(); }

  int watch(std::optional<WatchedProcess>& process) {
    bool greeted = false, interrupted = false;
    while (true) {
      take_in(process);
      if (!greeted && !has_command() &&
          std::ranges::all_of(gpus_, [](const auto& g) { return g.readings > 0; })) {
        greeted = true;
        say(fmt::format("watching {} {} every {} s; Ctrl-C ends", gpus_.size(),
                        gpus_.size() == 1 ? "GPU" : "GPUs", arguments_.interval));
      }
      if (process) {
        if (const std::optional<int> code = process->exit_code()) return *code;
      }
      if (const int signal = interrupted ? 0 : noted_interrupt(); signal != 0) {
        interrupted = true;
        if (!has_command()) return kDone;
        pass_on(*process, signal);
      }
      std::this_thread::sleep_for(kTick);
    }
  }

  // Ctrl-C of a terminal has reached the command already.
  static void pass_on(const WatchedProcess& process, int signal) {
    const bool from_terminal = signal == SIGINT && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
    if (!from_terminal) process.send(signal);
  }

  static int noted_interrupt() {
    try {
      check_interrupted();
    } catch (const Interrupted& interrupted) {
      return interrupted.signal();
    }
    return 0;
  }

  void take_in(const std::optional<WatchedProcess>& process) {
    for (const Sample& sample : inbox_.take()) {
      WatchedGpu& gpu = gpus_[sample.gpu];
      gpu.add(sample.reading);
      Json json = {{"time", sample.time_s}, {"gpu", gpu.index}, {"pci_id", gpu.pci_id}};
      json.update(reading_json(sample.reading));
      if (process) {
        const std::optional<std::uint64_t> bytes = bytes_of(sample.reading, process->pid());
        gpu.peak_command_bytes = std::max(gpu.peak_command_bytes, bytes);
        json["watched_process_bytes"] = bytes ? Json(*bytes) : Json();
      }
      lines_.write(json);
      if (arguments_.json) {
        print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
      } else if (!has_command()) {
        print_live(gpu, sample.reading);
      }
    }
  }

  // GPU memory of a process and its children. Unset where the driver names none of them: it is idle, or in
  // a container where the driver gives the host's process numbers.
  static std::optional<std::uint64_t> bytes_of(const gpu::GpuReading& reading, pid_t ancestor) {
    std::optional<std::uint64_t> bytes;
    for (const gpu::GpuProcess& process : reading.processes) {
      if (process.used_bytes && descends_from(static_cast<pid_t>(process.pid), ancestor)) {
        bytes = bytes.value_or(0) + *process.used_bytes;
      }
    }
    return bytes;
  }

  void print_live(const WatchedGpu& gpu, const gpu::GpuReading& reading) {
    std::optional<std::uint64_t> pcie;
    if (reading.pcie_received_bytes_per_s)
      pcie = static_cast<std::uint64_t>(*reading.pcie_received_bytes_per_s);
    Table live({{"gpu", true},
                {"busy", true, 5},
                {"SMs", true, 5},
                {"tensor", true, 6},
                {"memory", true, 6},
                {"PCIe in/s", true, 9},
                {"used", true, 8},
                {"power", true, 6},
                {"temp", true, 5},
                {"clock", true, 8},
                {"clocks lowered by"}});
    live.add_row({std::to_string(gpu.index), share_text(reading.busy), share_text(reading.sm_active),
                  share_text(reading.tensor_active), share_text(reading.dram_active), bytes_text(pcie),
                  bytes_text(reading.memory_used_bytes), value_text(reading.power_w, "W"),
                  value_text(reading.temperature_c, "°C"),
                  reading.sm_clock_mhz ? fmt::format("{} MHz", *reading.sm_clock_mhz) : "n/a",
                  gpu::throttle_text(reading.throttle_reasons.value_or(0))});
    if (!std::exchange(headed_, true)) print(live.header_text());
    print(live.row_text(0));
  }

  // The averages, below the live rows or, with a command, away from its output.
  void finish() {
    Table table({{"gpu", true},
                 {"name"},
                 {"readings", true},
                 {"busy", true},
                 {"SMs", true},
                 {"tensor", true},
                 {"memory", true},
                 {"PCIe in/s", true},
                 {"peak used", true},
                 {"power", true},
                 {"energy", true},
                 {"hottest", true},
                 {"clocks lowered by"}});
    Json all = Json::array();
    for (const WatchedGpu& gpu : gpus_) {
      std::optional<std::uint64_t> pcie;
      if (const auto mean = gpu.pcie_received.mean()) pcie = static_cast<std::uint64_t>(*mean);
      const std::string lowered = gpu::throttle_text(gpu.throttle_reasons);
      table.add_row({std::to_string(gpu.index), gpu.name, std::to_string(gpu.readings),
                     share_text(gpu.busy.mean()), share_text(gpu.sm_active.mean()),
                     share_text(gpu.tensor_active.mean()), share_text(gpu.dram_active.mean()),
                     bytes_text(pcie), bytes_text(gpu.peak_memory_bytes), value_text(gpu.power_w.mean(), "W"),
                     value_text(gpu.energy_j(), "J"), value_text(gpu.hottest_c, "°C"), lowered});
      const auto json_of = [](const auto& value) { return value ? Json(*value) : Json(); };
      all.push_back({{"gpu", gpu.index},
                     {"name", gpu.name},
                     {"pci_id", gpu.pci_id},
                     {"readings", gpu.readings},
                     {"busy", json_of(gpu.busy.mean())},
                     {"sm_active", json_of(gpu.sm_active.mean())},
                     {"tensor_active", json_of(gpu.tensor_active.mean())},
                     {"dram_active", json_of(gpu.dram_active.mean())},
                     {"pcie_received_bytes_per_s", json_of(gpu.pcie_received.mean())},
                     {"peak_memory_used_bytes", json_of(gpu.peak_memory_bytes)},
                     {"peak_watched_process_bytes", json_of(gpu.peak_command_bytes)},
                     {"power_w", json_of(gpu.power_w.mean())},
                     {"energy_j", json_of(gpu.energy_j())},
                     {"hottest_c", json_of(gpu.hottest_c)},
                     {"clocks_lowered_by", lowered}});
    }
    const Json summary = {{"summary", all}};
    lines_.write(summary);
    if (arguments_.json) {
      print(summary.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
      return;
    }
    std::string text = table.to_text();
    if (has_command()) {
      text.pop_back();  // `say` ends the line
      say(text);
    } else {
      print('\n' + text);
    }
  }

  const MonitorArguments& arguments_;
  const std::shared_ptr<gpu::Nvml> nvml_;
  std::vector<WatchedGpu> gpus_;
  LineFile lines_;
  bool headed_ = false;
  Inbox inbox_;
};

int monitor(const MonitorArguments& arguments) {
  check_arguments(arguments);
  return Run(arguments, load_nvml()).go();
}

}  // namespace

void add_monitor(CLI::App& app, Action& action, std::vector<std::string> watched_command) {
  auto arguments = std::make_shared<MonitorArguments>();
  arguments->command = std::move(watched_command);
  CLI::App* const command = app.add_subcommand("monitor", "Watch the GPUs, alone or while a command runs");
  command->add_option("--interval", arguments->interval, "Seconds between readings, from 0.1")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "Write a line of JSON for each reading to FILE")
      ->type_name("FILE");
  command->add_option("--pid", arguments->pid, "Until this process ends")->type_name("N");
  command
      ->add_option("--gpu", arguments->gpus,
                   "Only this one, by PCI address or number of nvidia-smi; may be repeated")
      ->type_name("GPU");
  command->add_flag("--json", arguments->json, "Print the lines of JSON instead of tables");
  command->footer(
      "What follows -- is started as a command; its exit code becomes ours, and the summary goes to stderr.\n"
      "busy: share of time in which any kernel ran, however small. SMs, tensor, memory: how much of the GPU "
      "worked\n"
      "(NVML's GPM, Hopper and later). Needs NVIDIA's driver; H5FEED_NVML names its libnvidia-ml.so.1 where "
      "it "
      "lies elsewhere.\n\n"
      "Examples:\n"
      "  h5feed monitor --interval 5\n"
      "  h5feed monitor --interval 0.5 -o run.jsonl -- ./train --epochs 3\n"
      "  h5feed monitor --pid 4242 --json");
  command->callback([arguments, &action] { action = [arguments] { return monitor(*arguments); }; });
}

}  // namespace h5feed::cli
