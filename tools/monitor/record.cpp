// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/byte_units.hpp"

namespace h5feed::cli {
namespace {

constexpr std::array<Quantity<GpuPoint>, 10> kGpuQuantities = {{
    {"busy", "busy_ratio", "use of the GPU", Unit::share, &GpuPoint::busy},
    {"sm_active", "sm_active_ratio", "use of its SMs", Unit::share, &GpuPoint::sm_active},
    {"tensor_active", "tensor_active_ratio", "use of its tensor cores", Unit::share,
     &GpuPoint::tensor_active},
    {"dram_active", "dram_active_ratio", "use of its memory bandwidth", Unit::share, &GpuPoint::dram_active},
    {"memory_used_bytes", "memory_used_bytes", "memory of the GPU in use", Unit::bytes,
     &GpuPoint::memory_used_bytes},
    {"memory_total_bytes", "memory_total_bytes", "memory of the GPU", Unit::bytes,
     &GpuPoint::memory_total_bytes},
    {"pcie_received_bytes_per_s", "pcie_received_bytes_per_second", "transfers to the GPU", Unit::bytes_per_s,
     &GpuPoint::pcie_received_bytes_per_s},
    {"power_w", "power_watts", "power of the GPU", Unit::watt, &GpuPoint::power_w},
    {"temperature_c", "temperature_celsius", "temperature of the GPU", Unit::celsius,
     &GpuPoint::temperature_c},
    {"sm_clock_mhz", "sm_clock_hertz", "clock of the SMs", Unit::mhz, &GpuPoint::sm_clock_mhz},
}};

constexpr std::array<Quantity<Point>, 18> kHostQuantities = {{
    {"machine/cpu_busy", "cpu_busy_ratio", "use of the processor", Unit::share, &Point::cpu_busy},
    {"machine/memory_used_bytes", "memory_used_bytes", "memory of the machine in use", Unit::bytes,
     &Point::memory_used_bytes},
    {"machine/page_cache_bytes", "page_cache_bytes", "page cache", Unit::bytes, &Point::page_cache_bytes},
    {"machine/disk_read_bytes_per_s", "disk_read_bytes_per_second", "reads from disks", Unit::bytes_per_s,
     &Point::disk_read_bytes_per_s},
    {"machine/disk_written_bytes_per_s", "disk_written_bytes_per_second", "writes to disks",
     Unit::bytes_per_s, &Point::disk_written_bytes_per_s},
    {"machine/disk_busy", "disk_busy_ratio", "use of the busiest disk", Unit::share, &Point::disk_busy},
    {"machine/io_stalled", "io_stalled_ratio", "time in which processes waited for storage", Unit::share,
     &Point::io_stalled},
    {"machine/net_received_bytes_per_s", "net_received_bytes_per_second", "received from the network",
     Unit::bytes_per_s, &Point::net_received_bytes_per_s},
    {"machine/net_sent_bytes_per_s", "net_sent_bytes_per_second", "sent to the network", Unit::bytes_per_s,
     &Point::net_sent_bytes_per_s},
    {"machine/net_busy", "net_busy_ratio", "use of the fullest network link", Unit::share, &Point::net_busy},
    {"process/cpu_cores", "process_cpu_cores", "busy cores of the process", Unit::cores,
     &Point::process_cores},
    {"process/rss_bytes", "process_resident_bytes", "memory of the process", Unit::bytes,
     &Point::process_rss_bytes},
    {"process/processes", "process_processes", "processes", Unit::count, &Point::processes},
    {"process/read_bytes_per_s", "process_read_bytes_per_second", "reads of the process", Unit::bytes_per_s,
     &Point::process_read_bytes_per_s},
    {"process/written_bytes_per_s", "process_written_bytes_per_second", "writes of the process",
     Unit::bytes_per_s, &Point::process_written_bytes_per_s},
    {"loader/wait", "loader_wait_ratio", "share of time that the training waited for batches", Unit::share,
     &Point::loader_wait},
    {"loader/wait_read", "loader_wait_read_ratio", "share of time that the training waited for storage",
     Unit::share, &Point::loader_wait_read},
    {"loader/samples_per_s", "loader_samples_per_second", "samples delivered", Unit::samples_per_s,
     &Point::loader_samples_per_s},
}};

std::optional<double> mean_of(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::optional((*a + *b) / 2) : a ? a : b;
}

GpuPoint joined(const GpuPoint& a, const GpuPoint& b) {
  GpuPoint point{.throttle_reasons = a.throttle_reasons | b.throttle_reasons};
  for (const auto& quantity : kGpuQuantities)
    point.*quantity.value = mean_of(a.*quantity.value, b.*quantity.value);
  return point;
}

Point joined(const Point& a, const Point& b) {
  Point point{.time_s = b.time_s};
  for (const auto& quantity : kHostQuantities)
    point.*quantity.value = mean_of(a.*quantity.value, b.*quantity.value);
  for (std::size_t i = 0; i < std::min(a.gpus.size(), b.gpus.size()); ++i)
    point.gpus.push_back(joined(a.gpus[i], b.gpus[i]));
  return point;
}

}  // namespace

std::span<const Quantity<GpuPoint>> gpu_quantities() noexcept { return kGpuQuantities; }
std::span<const Quantity<Point>> host_quantities() noexcept { return kHostQuantities; }

std::string value_text(double value, Unit unit) {
  const auto bytes = static_cast<std::uint64_t>(std::max(0.0, value));
  switch (unit) {
    case Unit::share:
      return fmt::format("{:.0f} %", value * 100);
    case Unit::bytes:
      return format_bytes(bytes);
    case Unit::bytes_per_s:
      return format_bytes(bytes) + "/s";
    case Unit::samples_per_s:
      return fmt::format("{:.0f} samples/s", value);
    case Unit::cores:
      return fmt::format("{:.1f} cores", value);
    case Unit::count:
      return fmt::format("{:.0f}", value);
    case Unit::watt:
      return fmt::format("{:.0f} W", value);
    case Unit::celsius:
      return fmt::format("{:.0f} °C", value);
    case Unit::mhz:
      return fmt::format("{:.0f} MHz", value);
  }
  return {};
}

void Record::thin(std::size_t most) {
  if (points.size() <= most) return;
  std::vector<Point> fewer;
  fewer.reserve(points.size() / 2 + 1);
  std::size_t i = 0;
  for (; i + 1 < points.size(); i += 2) fewer.push_back(joined(points[i], points[i + 1]));
  if (i < points.size()) fewer.push_back(std::move(points[i]));
  points = std::move(fewer);
  interval_s *= 2;
}

}  // namespace h5feed::cli
