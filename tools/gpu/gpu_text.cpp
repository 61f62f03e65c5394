// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/gpu_text.hpp"

#include <fmt/format.h>

#include "base/byte_units.hpp"
#include "tools/program/watched_process.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kUnknown = "n/a";

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json reading_json(const gpu::GpuReading& reading) {
  Json processes = Json::array();
  for (const gpu::GpuProcess& process : reading.processes) {
    const std::string name = process_name(static_cast<pid_t>(process.pid));
    processes.push_back({{"pid", process.pid},
                         {"name", name.empty() ? Json() : Json(name)},
                         {"used_bytes", json_of(process.used_bytes)}});
  }
  return {{"busy", json_of(reading.busy)},
          {"sm_active", json_of(reading.sm_active)},
          {"tensor_active", json_of(reading.tensor_active)},
          {"dram_active", json_of(reading.dram_active)},
          {"memory_busy", json_of(reading.memory_busy)},
          {"pcie_received_bytes_per_s", json_of(reading.pcie_received_bytes_per_s)},
          {"pcie_sent_bytes_per_s", json_of(reading.pcie_sent_bytes_per_s)},
          {"memory_used_bytes", json_of(reading.memory_used_bytes)},
          {"memory_free_bytes", json_of(reading.memory_free_bytes)},
          {"memory_total_bytes", json_of(reading.memory_total_bytes)},
          {"power_w", json_of(reading.power_w)},
          {"energy_j", json_of(reading.energy_j)},
          {"temperature_c", json_of(reading.temperature_c)},
          {"sm_clock_mhz", json_of(reading.sm_clock_mhz)},
          {"memory_clock_mhz", json_of(reading.memory_clock_mhz)},
          {"clocks_lowered_by",
           reading.throttle_reasons ? Json(gpu::throttle_text(*reading.throttle_reasons)) : Json()},
          {"processes", processes}};
}

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f} %", *share * 100) : kUnknown;
}

std::string value_text(const std::optional<double>& value, const char* unit) {
  return value ? fmt::format("{:.0f} {}", *value, unit) : kUnknown;
}

std::string bytes_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? format_bytes(*bytes) : kUnknown;
}

}  // namespace h5feed::cli
