// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <regex>
#include <utility>

#include "h5feed/error.hpp"
#include "tools/gpu/gpu_text.hpp"
#include "tools/program/option_text.hpp"

namespace h5feed::cli {
namespace {

std::optional<std::uint64_t> whole(const std::optional<double>& value) {
  return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
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

}  // namespace

void check_gpu_name(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    parse_number("--gpu", text, 0, INT32_MAX);
    return;
  }
  // Hexadecimal, DOMAIN:BUS:DEVICE.FUNCTION
  static const std::regex address("[0-9a-f]{1,8}:[0-9a-f]{1,2}:[0-9a-f]{1,2}\\.[0-9a-f]",
                                  std::regex::icase | std::regex::nosubs);
  if (std::regex_match(text.begin(), text.end(), address)) return;
  throw OptionError(
      fmt::format("--gpu \"{}\": give a number of nvidia-smi, or a PCI address such as "
                  "00000000:3B:00.0",
                  text));
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void WatchedGpu::add(const gpu::GpuReading& reading) {
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
  // An empty optional compares less than any value.
  hottest_c = std::max(hottest_c, reading.temperature_c);
  peak_memory_bytes = std::max(peak_memory_bytes, reading.memory_used_bytes);
  if (!first_energy_j) first_energy_j = reading.energy_j;
  if (reading.energy_j) last_energy_j = reading.energy_j;
  throttle_reasons |= reading.throttle_reasons.value_or(0);
}

std::optional<double> WatchedGpu::energy_j() const {
  return first_energy_j && last_energy_j ? std::optional(*last_energy_j - *first_energy_j) : std::nullopt;
}

GpuWatch::GpuWatch(std::shared_ptr<gpu::Nvml> nvml, const std::vector<std::string>& wanted)
    : nvml_(std::move(nvml)), gpus_(choose(*nvml_, wanted)) {}

void GpuWatch::start(std::chrono::milliseconds interval) {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    monitors_.push_back(
        std::make_unique<gpu::GpuMonitor>(nvml_, gpus_[i].index, interval, [this, i](const auto& reading) {
          put({i, seconds_since_1970(), reading});
        }));
  }
}

void GpuWatch::put(GpuSample sample) {
  const std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(sample));
}

std::vector<GpuSample> GpuWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(inbox_, {});
}

Table GpuWatch::live_table() {
  return Table({{"gpu", true},
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
}

std::vector<std::string> GpuWatch::live_cells(const WatchedGpu& gpu, const gpu::GpuReading& reading) {
  return {std::to_string(gpu.index),
          share_text(reading.busy),
          share_text(reading.sm_active),
          share_text(reading.tensor_active),
          share_text(reading.dram_active),
          bytes_text(whole(reading.pcie_received_bytes_per_s)),
          bytes_text(reading.memory_used_bytes),
          value_text(reading.power_w, "W"),
          value_text(reading.temperature_c, "°C"),
          reading.sm_clock_mhz ? fmt::format("{} MHz", *reading.sm_clock_mhz) : "n/a",
          gpu::throttle_text(reading.throttle_reasons.value_or(0))};
}

Table GpuWatch::table() const {
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
  for (const WatchedGpu& gpu : gpus_) {
    table.add_row({std::to_string(gpu.index), gpu.name, std::to_string(gpu.readings),
                   share_text(gpu.busy.mean()), share_text(gpu.sm_active.mean()),
                   share_text(gpu.tensor_active.mean()), share_text(gpu.dram_active.mean()),
                   bytes_text(whole(gpu.pcie_received.mean())), bytes_text(gpu.peak_memory_bytes),
                   value_text(gpu.power_w.mean(), "W"), value_text(gpu.energy_j(), "J"),
                   value_text(gpu.hottest_c, "°C"), gpu::throttle_text(gpu.throttle_reasons)});
  }
  return table;
}

Json GpuWatch::summary() const {
  const auto json_of = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json all = Json::array();
  for (const WatchedGpu& gpu : gpus_) {
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
                   {"peak_watched_process_bytes", json_of(gpu.peak_process_bytes)},
                   {"power_w", json_of(gpu.power_w.mean())},
                   {"energy_j", json_of(gpu.energy_j())},
                   {"hottest_c", json_of(gpu.hottest_c)},
                   {"clocks_lowered_by", gpu::throttle_text(gpu.throttle_reasons)}});
  }
  return all;
}

}  // namespace h5feed::cli
