// SPDX-License-Identifier: Apache-2.0
// Readings of the GPUs of this machine from NVIDIA's management library (NVML). Needs no CUDA: the library, a
// part of the driver, is loaded at run time; values that it does not offer stay unset.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace h5feed::gpu {

/// A process with a context on a GPU. In a container the driver may report process numbers of the host.
struct GpuProcess {
  std::uint32_t pid = 0;
  std::optional<std::uint64_t> used_bytes;
};

/// One reading of one GPU. Values that driver or card do not offer are unset. Shares are 0 … 1.
struct GpuReading {
  /// Share of the driver's last sample period (1/6 to 1 s) in which at least one kernel ran
  /// (nvmlUtilization_t): one tiny kernel makes it 1. A low value shows that the GPU waits; a high one does
  /// not show that it is well used.
  std::optional<double> busy;
  std::optional<double> memory_busy;  ///< Share of that period in which memory was read or written
  std::optional<std::uint64_t> memory_total_bytes, memory_free_bytes, memory_used_bytes;
  std::optional<double> power_w;
  std::optional<double> energy_j;  ///< Energy used since the driver was loaded
  std::optional<double> temperature_c;
  std::optional<unsigned> sm_clock_mhz, memory_clock_mhz;
  std::optional<std::uint64_t> throttle_reasons;  ///< Bits of the current reasons; see `throttle_text`
  std::vector<GpuProcess> processes;

  // GPM metrics (Hopper and later): averages since the previous reading of the same GPU by the same Nvml
  // object; unset in the first reading.
  std::optional<double> sm_active;      ///< Share of SM cycles with work
  std::optional<double> tensor_active;  ///< Share of cycles in which tensor cores worked
  std::optional<double> dram_active;    ///< Share of the memory bandwidth in use
  std::optional<double> pcie_sent_bytes_per_s, pcie_received_bytes_per_s;  ///< PCIe traffic seen from the GPU
};

/// Returns the names of the reasons that lower the clocks, "power cap, thermal (hardware)"; empty if there
/// are none. An idle GPU and a user's own clock settings do not count.
std::string throttle_text(std::uint64_t reasons);

/// The loaded library. Thread-safe, except for concurrent `read` calls of the same GPU.
class Nvml {
 public:
  /// Loads and initializes the library at `path`. If `path` is empty: the library that the environment
  /// variable H5FEED_NVML names, else libnvidia-ml.so.1, found by the dynamic linker or where container
  /// platforms mount it. Returns null and sets `why` to a one-line reason if that fails.
  static std::shared_ptr<Nvml> load(const std::string& path, std::string& why);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  /// Number of GPUs of the machine, regardless of CUDA_VISIBLE_DEVICES.
  unsigned count() const;
  /// Returns the index of the GPU with a PCI address, written as by CUDA or NVML ("0000:19:00.0",
  /// "00000000:19:00.0"); nullopt if there is none. CUDA ordinals and NVML indices differ: only the address
  /// identifies a GPU.
  std::optional<unsigned> find(std::string_view pci_id) const;

  std::string driver_version() const;  ///< Driver version; empty if the driver does not tell
  /// Name of GPU `gpu` < count(); empty if the driver does not tell.
  std::string name(unsigned gpu) const;
  /// PCI address of GPU `gpu` < count(); empty if the driver does not tell.
  std::string pci_id(unsigned gpu) const;
  /// Reads GPU `gpu` < count(). Values that cannot be read stay unset. May block for some milliseconds.
  GpuReading read(unsigned gpu);

 private:
  struct State;
  explicit Nvml(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace h5feed::gpu
