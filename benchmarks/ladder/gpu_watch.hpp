// SPDX-License-Identifier: Apache-2.0
// Use and memory of the GPU during a measurement.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cuda/nvml/gpu_monitor.hpp"

namespace h5feed::ladder {

/// Reads the GPU of the machine until it is destroyed. Has no figures where NVML or a GPU is missing, or
/// where several GPUs leave open which one trains.
class GpuWatch {
 public:
  GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;
  ~GpuWatch() = default;

  /// Share of time in which a kernel ran, 0 … 1, as the driver tells it; unset if it does not.
  std::optional<double> busy() const;
  /// Most memory in use on the GPU, by all processes; unset if the driver does not tell it.
  std::optional<std::uint64_t> peak_memory_bytes() const;
  /// Reason why there are no figures; empty if there are.
  const std::string& why_not() const noexcept { return why_not_; }

 private:
  std::string why_not_;
  std::atomic<std::uint64_t> peak_memory_bytes_ = 0;
  std::unique_ptr<gpu::GpuMonitor> monitor_;  // last: its thread writes the peak
};

}  // namespace h5feed::ladder
