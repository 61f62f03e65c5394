// SPDX-License-Identifier: Apache-2.0
// What the loader is told of the GPU that it feeds, by whoever can look at it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "h5feed/export.hpp"

namespace h5feed {

/// A quantity seen several times.
struct SeenValues {
  double sum = 0;
  std::uint64_t count = 0;

  void add(double value) noexcept {
    sum += value;
    ++count;
  }
  /// Unset where nothing was seen.
  std::optional<double> mean() const noexcept {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

/// Readings of a GPU, added up. Shares are 0 … 1. What driver or card do not offer is not counted.
struct H5FEED_EXPORT GpuUse {
  std::uint64_t readings = 0;
  /// Share of time in which at least one kernel ran, however small: says that a GPU waits, not that it is
  /// well used (nvmlUtilization_t of the NVML API Reference Guide).
  SeenValues busy;
  SeenValues sm_active;      ///< share of SM cycles with work
  SeenValues tensor_active;  ///< the same of tensor cores
  SeenValues dram_active;    ///< share of memory bandwidth
  SeenValues power_w;
  std::string clocks_lowered_by;  ///< "power cap, thermal (hardware)"; empty where nothing did

  /// "the GPU was busy 41 %, its SMs 30 %; clocks lowered: power cap", of what is known; empty without a
  /// reading.
  std::string to_string() const;

  /// Sums of both.
  GpuUse& operator+=(const GpuUse& other);
};

/// What was read between two looks at the same probe. What lowered the clocks is that of `end`.
H5FEED_EXPORT GpuUse operator-(const GpuUse& end, const GpuUse& begin);

/// Looks at one GPU from time to time, on a thread of its own. `h5feed::gpu::monitor()` of
/// <h5feed/gpu_monitor.hpp> makes one for NVIDIA GPUs. Thread-safe.
class H5FEED_EXPORT GpuProbe {
 public:
  virtual ~GpuProbe() = default;

  /// All readings so far. Does not wait for the GPU, does not throw but for lack of memory.
  virtual GpuUse use() const = 0;
};

}  // namespace h5feed
