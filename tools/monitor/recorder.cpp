// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/recorder.hpp"

#include <algorithm>
#include <utility>

#include "base/system_limits.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostPoints = 20'000;

template <typename T>
std::optional<double> real(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

}  // namespace

Recorder::Recorder(RecorderSources sources, double interval_s, double started_s, std::uint64_t start_ns)
    : last_(sources.gpus.size()), machine_(sources.root) {
  record_.interval_s = interval_s;
  record_.started_s = started_s;
  record_.start_ns = start_ns;
  record_.cpus = system_limits(sources.root).cpus;
  record_.gpus = std::move(sources.gpus);
  if (!sources.stats_file.empty()) loaders_.emplace(std::move(sources.stats_file), started_s);
}

void Recorder::add(std::size_t gpu, const gpu::GpuReading& reading) {
  last_[gpu] = GpuPoint{.busy = reading.busy,
                        .sm_active = reading.sm_active,
                        .tensor_active = reading.tensor_active,
                        .dram_active = reading.dram_active,
                        .memory_used_bytes = real(reading.memory_used_bytes),
                        .memory_total_bytes = real(reading.memory_total_bytes),
                        .pcie_received_bytes_per_s = reading.pcie_received_bytes_per_s,
                        .power_w = reading.power_w,
                        .temperature_c = reading.temperature_c,
                        .sm_clock_mhz = real(reading.sm_clock_mhz),
                        .throttle_reasons = reading.throttle_reasons.value_or(0)};
}

bool Recorder::ready() const {
  return std::ranges::all_of(last_, [](const auto& reading) { return reading.has_value(); });
}

Point Recorder::close(Point point) {
  for (const std::optional<GpuPoint>& reading : last_) point.gpus.push_back(reading.value_or(GpuPoint()));
  machine_.read(point);
  record_.memory_bytes = machine_.memory_bytes();
  record_.disk = machine_.busiest_disk();
  if (loaders_) {
    loaders_->read(point);
    record_.epochs = loaders_->epochs();
  }
  record_.points.push_back(point);
  record_.thin(kMostPoints);
  return point;
}

void Recorder::finish() {
  if (!loaders_) return;
  Point beyond{.time_s = record_.points.empty() ? 0 : record_.points.back().time_s};
  loaders_->read(beyond);
  record_.epochs = loaders_->epochs();
}

}  // namespace h5feed::cli
