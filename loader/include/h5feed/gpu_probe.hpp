// SPDX-License-Identifier: Apache-2.0
// Utilization of the GPU that a loader feeds, as measured by a probe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "h5feed/export.hpp"

namespace h5feed {

/// Sum and count of the readings of a quantity.
struct SeenValues {
  /// Sum of all readings.
  double sum = 0;
  /// Number of readings.
  std::uint64_t count = 0;

  /// Adds one reading.
  void add(double value) noexcept {
    sum += value;
    ++count;
  }
  /// Returns the mean of the readings; empty without readings.
  std::optional<double> mean() const noexcept {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

/// Accumulated readings of a GPU. Shares are 0 … 1. Quantities that the driver or GPU does not report have no
/// readings.
struct H5FEED_EXPORT GpuUse {
  /// Number of times the GPU was read.
  std::uint64_t readings = 0;
  /// Share of time in which at least one kernel ran, however small. A high share does not mean that the GPU
  /// is used well (nvmlUtilization_t of the NVML API Reference Guide).
  SeenValues busy;
  SeenValues sm_active;           ///< share of SM cycles with work
  SeenValues tensor_active;       ///< share of tensor core cycles with work
  SeenValues dram_active;         ///< share of memory bandwidth in use
  SeenValues power_w;             ///< power in watts
  std::string clocks_lowered_by;  ///< "power cap, thermal (hardware)"; empty if clocks were not lowered

  /// Returns a summary of the known quantities: "the GPU was busy 41 %, its SMs 30 %; clocks lowered: power
  /// cap". Empty without readings.
  std::string to_string() const;

  /// Adds the readings of `other`. Takes `clocks_lowered_by` of `other` unless it is empty.
  GpuUse& operator+=(const GpuUse& other);
};

/// Returns the readings between two snapshots of the same probe. `clocks_lowered_by` is that of `end`.
H5FEED_EXPORT GpuUse operator-(const GpuUse& end, const GpuUse& begin);

/// Reads one GPU periodically on a thread of its own. `h5feed::gpu::monitor()` of <h5feed/gpu_monitor.hpp>
/// makes a probe for NVIDIA GPUs. Thread-safe.
class H5FEED_EXPORT GpuProbe {
 public:
  virtual ~GpuProbe() = default;

  /// Returns all readings so far. Does not wait for the GPU. Throws only std::bad_alloc.
  virtual GpuUse use() const = 0;
};

}  // namespace h5feed
