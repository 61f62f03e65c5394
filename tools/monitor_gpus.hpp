// The GPUs that `monitor` watches, and what their readings come to.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/gpu_monitor.hpp"
#include "cuda/nvml.hpp"
#include "tools/output.hpp"
#include "tools/table.hpp"

namespace h5feed::cli {

/// The time of a reading, in seconds since 1970.
double seconds_since_1970();

/// One reading on its way from a monitor's thread to the program's.
struct GpuSample {
  std::size_t gpu = 0;  ///< among the watched ones
  double time_s = 0;    ///< since 1970
  gpu::GpuReading reading;
};

/// One watched GPU.
struct WatchedGpu {
  unsigned index = 0;  ///< as NVML counts
  std::string name;
  std::string pci_id;
  SeenValues busy, sm_active, tensor_active, dram_active, pcie_received, power_w;
  std::optional<double> hottest_c, first_energy_j, last_energy_j;
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<std::uint64_t> peak_process_bytes;  ///< of the watched process and its descendants
  std::uint64_t throttle_reasons = 0;
  std::uint64_t readings = 0;

  void add(const gpu::GpuReading& reading);
  std::optional<double> energy_j() const;
};

/// Throws OptionError where `text` of --gpu is neither a number nor a PCI address such as 00000000:3B:00.0,
/// whatever GPUs the machine has.
void check_gpu_name(std::string_view text);

/// Watches GPUs on threads of their own while it runs. The methods are for one thread.
class GpuWatch {
 public:
  /// Of the GPUs that `wanted` names by PCI address or number, or of all where it is empty. Throws
  /// OptionError for a GPU that is not there.
  GpuWatch(std::shared_ptr<gpu::Nvml> nvml, const std::vector<std::string>& wanted);

  /// Readings are taken from here on, every `interval`.
  void start(std::chrono::milliseconds interval);
  /// Waits for readings under way; `take` still gives what came before.
  void stop() { monitors_.clear(); }

  /// Readings since the last call, in the order in which they came.
  std::vector<GpuSample> take();

  std::vector<WatchedGpu>& gpus() noexcept { return gpus_; }
  const std::vector<WatchedGpu>& gpus() const noexcept { return gpus_; }

  Json summary() const;
  Table table() const;
  static Table live_table();
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
