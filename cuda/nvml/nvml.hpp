// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's management library says about the GPUs of this machine. Needs no CUDA: the library of the
// driver is loaded when asked for, and everything it does not offer is left unset.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace h5feed::gpu {

/// A process with a context on a GPU. In a container the driver may give process numbers of the host.
struct GpuProcess {
  std::uint32_t pid = 0;
  std::optional<std::uint64_t> used_bytes;
};

/// One look at one GPU; what driver or card do not offer is unset. Shares are 0 … 1.
struct GpuReading {
  /// Share of the driver's last sample period (1/6 to 1 s) in which at least one kernel ran: one tiny kernel
  /// makes it 1 (nvmlUtilization_t). Says that a GPU waits, not that it is well used.
  std::optional<double> busy;
  std::optional<double> memory_busy;  ///< the same of memory reads and writes
  std::optional<std::uint64_t> memory_total_bytes, memory_free_bytes, memory_used_bytes;
  std::optional<double> power_w;
  std::optional<double> energy_j;  ///< since the driver was loaded
  std::optional<double> temperature_c;
  std::optional<unsigned> sm_clock_mhz, memory_clock_mhz;
  std::optional<std::uint64_t> throttle_reasons;  ///< bits, see `throttle_text`
  std::vector<GpuProcess> processes;

  // GPM metrics (Hopper and later), averages since the last reading of the same GPU; unset at the first.
  std::optional<double> sm_active;                                         ///< share of SM cycles with work
  std::optional<double> tensor_active;                                     ///< the same of tensor cores
  std::optional<double> dram_active;                                       ///< share of memory bandwidth
  std::optional<double> pcie_sent_bytes_per_s, pcie_received_bytes_per_s;  ///< seen from the GPU
};

/// Words for the bits that lower the clocks, "power cap, thermal (hardware)"; empty when none does. Idle
/// and a user's own clock settings are no throttling.
std::string throttle_text(std::uint64_t reasons);

/// The loaded library. Thread-safe, but for `read` of the same GPU.
class Nvml {
 public:
  /// Loads and initializes `path`; empty: the one that the environment variable H5FEED_NVML names, else
  /// libnvidia-ml.so.1 where the dynamic linker or a container platform has it. Null, with `why` set to one
  /// line, where that fails.
  static std::shared_ptr<Nvml> load(const std::string& path, std::string& why);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  /// GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says.
  unsigned count() const;
  /// The GPU with a PCI address as CUDA or NVML write it ("0000:19:00.0", "00000000:19:00.0"); nullopt where
  /// there is none. Ordinals of CUDA and NVML differ: only the address says which GPU is meant.
  std::optional<unsigned> find(std::string_view pci_id) const;

  std::string driver_version() const;  ///< empty where the driver does not say
  std::string name(unsigned gpu) const;
  std::string pci_id(unsigned gpu) const;
  /// Does not throw. May take some milliseconds.
  GpuReading read(unsigned gpu);

 private:
  struct State;
  explicit Nvml(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace h5feed::gpu
