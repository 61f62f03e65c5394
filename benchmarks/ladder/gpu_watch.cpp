// SPDX-License-Identifier: Apache-2.0
#include "ladder/gpu_watch.hpp"

#include <algorithm>
#include <chrono>

namespace h5feed::ladder {

GpuWatch::GpuWatch() {
  const std::shared_ptr<gpu::Nvml> nvml = gpu::Nvml::load("", why_not_);
  if (!nvml) return;
  if (nvml->count() != 1) {
    why_not_ = "NVML lists " + std::to_string(nvml->count()) + " GPUs, and one is needed";
    return;
  }
  monitor_ = std::make_unique<gpu::GpuMonitor>(
      nvml, 0, std::chrono::milliseconds(100), [this](const gpu::GpuReading& reading) {
        // Only the monitor's thread writes it.
        peak_memory_bytes_ = std::max(peak_memory_bytes_.load(), reading.memory_used_bytes.value_or(0));
      });
}

std::optional<double> GpuWatch::busy() const { return monitor_ ? monitor_->use().busy.mean() : std::nullopt; }

std::optional<std::uint64_t> GpuWatch::peak_memory_bytes() const {
  const std::uint64_t bytes = peak_memory_bytes_;
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace h5feed::ladder
