// Readings of one GPU over time, on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cuda/nvml.hpp"

namespace h5feed::gpu {

/// Averages over the readings so far; unset where no reading had the value.
struct GpuUse {
  std::uint64_t readings = 0;
  std::optional<double> busy, sm_active, tensor_active, dram_active;  ///< 0 … 1
  std::optional<double> power_w;
  std::optional<std::uint64_t> peak_memory_used_bytes;  ///< of the GPU, all processes
  std::uint64_t throttle_reasons = 0;                   ///< all bits seen
  GpuReading last;

  /// "the GPU was busy 41 %, its SMs 30 %; clocks lowered: power cap", of what is known; empty without a
  /// reading.
  std::string to_string() const;
};

/// Takes a reading at once and then every `interval` until it is destroyed, which waits for a reading
/// under way at most. Thread-safe.
class GpuMonitor {
 public:
  /// `gpu` counts as NVML does. The docs of NVML ask for 100 ms and more between GPM samples: shorter
  /// intervals are raised to that. `on_reading`, when set, is called on the monitor's thread.
  GpuMonitor(std::shared_ptr<Nvml> nvml, unsigned gpu, std::chrono::milliseconds interval,
             std::function<void(const GpuReading&)> on_reading = {});
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  ~GpuMonitor() = default;

  GpuUse use() const;

 private:
  void watch(const std::stop_token& stop);
  void add(const GpuReading& reading);

  const std::shared_ptr<Nvml> nvml_;
  const unsigned gpu_;
  const std::chrono::milliseconds interval_;
  const std::function<void(const GpuReading&)> on_reading_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  GpuUse use_;           // averages are kept as such; guarded by `mutex_`
  std::jthread thread_;  // last: it uses all others
};

}  // namespace h5feed::gpu
