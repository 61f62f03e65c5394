// SPDX-License-Identifier: Apache-2.0
// Readings of one GPU over time, on a thread of its own.
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

/// Takes a reading at once and then every `interval` until it is destroyed, which waits for a reading
/// under way at most. Thread-safe.
class GpuMonitor final : public GpuProbe {
 public:
  /// `gpu` counts as NVML does. The docs of NVML ask for 100 ms and more between GPM samples: shorter
  /// intervals are raised to that. `on_reading`, when set, is called on the monitor's thread.
  GpuMonitor(std::shared_ptr<Nvml> nvml, unsigned gpu, std::chrono::milliseconds interval,
             std::function<void(const GpuReading&)> on_reading = {});
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  ~GpuMonitor() override = default;

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
  GpuUse use_;                          // guarded by `mutex_`, as is the next
  std::uint64_t throttle_reasons_ = 0;  // all bits seen
  std::jthread thread_;                 // last: it uses all others
};

}  // namespace h5feed::gpu
