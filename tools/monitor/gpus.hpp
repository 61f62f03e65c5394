// SPDX-License-Identifier: Apache-2.0
// The GPUs that `monitor` watches, and the summary of their readings.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/nvml/gpu_monitor.hpp"
#include "cuda/nvml/nvml.hpp"
#include "tools/program/output.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// Returns the current time in seconds since 1970.
double seconds_since_1970();

/// A reading, passed from a monitor's thread to the program's.
struct GpuSample {
  std::size_t gpu = 0;  ///< index among the watched GPUs
  double time_s = 0;    ///< seconds since 1970
  gpu::GpuReading reading;
};

/// One watched GPU and the summary of its readings.
struct WatchedGpu {
  unsigned index = 0;  ///< NVML's index
  std::string name;
  std::string pci_id;
  SeenValues busy, sm_active, tensor_active, dram_active, pcie_received, power_w;
  std::optional<double> hottest_c, first_energy_j, last_energy_j;
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<std::uint64_t> peak_process_bytes;  ///< memory of the watched process and its descendants
  std::uint64_t throttle_reasons = 0;
  std::uint64_t readings = 0;

  /// Adds a reading to the summary.
  void add(const gpu::GpuReading& reading);
  /// Returns the joules between the first and the last reading; empty if the GPU does not report them.
  std::optional<double> energy_j() const;
};

/// Throws OptionError if `text`, the value of --gpu, is neither a number nor a PCI address such as
/// 00000000:3B:00.0. Does not look for the GPU.
void check_gpu_name(std::string_view text);

/// Watches GPUs on background threads between `start` and `stop`. Call its methods from one thread.
class GpuWatch {
 public:
  /// Selects the GPUs that `wanted` names by PCI address or number, or all if it is empty. Throws OptionError
  /// for a GPU that does not exist.
  GpuWatch(std::shared_ptr<gpu::Nvml> nvml, const std::vector<std::string>& wanted);

  /// Starts to take a reading of each GPU every `interval`.
  void start(std::chrono::milliseconds interval);
  /// Stops taking readings; blocks until readings in progress are done. `take` still returns earlier
  /// readings.
  void stop() { monitors_.clear(); }

  /// Returns the readings since the last call, in order of arrival.
  std::vector<GpuSample> take();

  std::vector<WatchedGpu>& gpus() noexcept { return gpus_; }
  const std::vector<WatchedGpu>& gpus() const noexcept { return gpus_; }

  /// Returns the summary of all watched GPUs as JSON.
  Json summary() const;
  /// Returns the summary as a table, one row per GPU.
  Table table() const;
  /// Returns an empty table for readings as they arrive.
  static Table live_table();
  /// Returns one reading as a row of `live_table`.
  static std::vector<std::string> live_cells(const WatchedGpu& gpu, const gpu::GpuReading& reading);

 private:
  void put(GpuSample sample);

  const std::shared_ptr<gpu::Nvml> nvml_;
  std::vector<WatchedGpu> gpus_;
  std::mutex mutex_;
  std::vector<GpuSample> inbox_;                            // guarded by `mutex_`
  std::vector<std::unique_ptr<gpu::GpuMonitor>> monitors_;  // last: their threads use all others
};

}  // namespace h5feed::cli
