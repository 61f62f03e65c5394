// SPDX-License-Identifier: Apache-2.0
// The NVML types that h5feed uses, declared here so that no NVML header is needed. Names and layouts: NVML
// API Reference Guide (docs.nvidia.com/deploy/nvml-api); the binary interface is stable.
#pragma once

#include <cstddef>

namespace h5feed::gpu::nvml {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kInsufficientSize = 7;

using Device = struct DeviceHandle*;
using GpmSample = struct GpmSampleHandle*;

/// nvmlUtilization_t: percent of the driver's last sample period.
struct Utilization {
  unsigned gpu;
  unsigned memory;
};

/// nvmlMemory_t, in bytes.
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

/// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;  ///< kNotAvailable if the driver does not tell
  unsigned gpu_instance;
  unsigned compute_instance;
};
inline constexpr unsigned long long kNotAvailable = ~0ULL;

/// nvmlGpmSupport_t, version 1.
struct GpmSupport {
  unsigned version;
  unsigned supported;
};

/// nvmlGpmMetric_t.
struct GpmMetric {
  unsigned id;
  Result result;
  double value;
  struct {
    char* short_name;
    char* long_name;
    char* unit;
  } info;
};

/// nvmlGpmMetricsGet_t, version 1. The library's own array grows from release to release while the version
/// stays; the library touches the first `count` entries only, and this array is longer than that of any
/// release so far.
struct GpmMetrics {
  unsigned version;
  unsigned count;
  GpmSample sample1;
  GpmSample sample2;
  GpmMetric metrics[512];
};

// nvmlGpmMetricId_t. Shares are in percent, PCIe in MiB/s.
inline constexpr unsigned kGpmSmUtil = 2, kGpmTensorUtil = 5, kGpmDramUtil = 10, kGpmPcieTx = 20,
                          kGpmPcieRx = 21;

static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);
static_assert(sizeof(ProcessInfo) == 24 && sizeof(GpmMetric) == 40 && offsetof(GpmMetrics, metrics) == 24);

}  // namespace h5feed::gpu::nvml
