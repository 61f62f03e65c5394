// SPDX-License-Identifier: Apache-2.0
// Monitors one GPU on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "cuda/nvml/nvml.hpp"
#include "h5feed/gpu_probe.hpp"

namespace h5feed::gpu {

/// Reads a GPU immediately and then every `interval` until it is destroyed. The destructor blocks at most
/// until the current reading ends. Thread-safe.
class GpuMonitor final : public GpuProbe {
 public:
  /// `gpu`: index of the GPU in NVML. `interval`: at least 100 ms, because NVML's documentation asks for 100
  /// ms or more between GPM samples; shorter ones are raised to that. `on_reading`, if set, is called on the
  /// monitor's thread and must not throw.
  GpuMonitor(std::shared_ptr<Nvml> nvml, unsigned gpu, std::chrono::milliseconds interval,
             std::function<void(const GpuReading&)> on_reading = {});
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  ~GpuMonitor() override = default;

  /// Returns the sums of all readings so far.
  GpuUse use() const override;

 private:
  void watch(const std::stop_token& stop);
  void add(const GpuReading& reading);

  const std::shared_ptr<Nvml> nvml_;
  const unsigned gpu_;
  const std::chrono::milliseconds interval_;
  const std::function<void(const GpuReading&)> on_reading_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  GpuUse use_;                          // guarded by `mutex_`
  std::uint64_t throttle_reasons_ = 0;  // all bits seen so far; guarded by `mutex_`
  std::jthread thread_;                 // last: it uses all other members
};

}  // namespace h5feed::gpu
