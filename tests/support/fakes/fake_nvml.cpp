// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so for the tests: two GPUs, an H200 with GPM and an older one without. With FAKE_NVML_OLD
// the library itself is old and has few functions. Tests set values with `fake_nvml_set`, or in another
// process with an environment variable such as FAKE_NVML_busy=20.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "cuda/nvml/nvml_abi.hpp"

namespace {

using namespace h5feed::gpu::nvml;

constexpr Result kUnknownError = 999;

struct State {
  std::mutex mutex;
  std::map<std::string, double> values;
  int initialized = 0;
  int gpm_samples = 0;

  // A value of one GPU, such as "busy0", else that of all.
  double get(const char* key, Device device, double otherwise) {
    const std::string own = key + std::to_string(reinterpret_cast<std::size_t>(device) - 1);
    return get(own.c_str(), get(key, otherwise));
  }
  double get(const char* key, double otherwise) {
    const std::lock_guard lock(mutex);
    const auto found = values.find(key);
    if (found != values.end()) return found->second;
    const char* const given = std::getenv((std::string("FAKE_NVML_") + key).c_str());
    return given != nullptr ? std::strtod(given, nullptr) : otherwise;
  }
};

State& state() {
  static State all;
  return all;
}

std::size_t index_of(Device device) { return reinterpret_cast<std::size_t>(device) - 1; }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void fake_nvml_set(const char* key, double value) {
  const std::lock_guard lock(state().mutex);
  state().values[key] = value;
}
__attribute__((visibility("default"))) void fake_nvml_reset() {
  const std::lock_guard lock(state().mutex);
  state().values.clear();
}
__attribute__((visibility("default"))) int fake_nvml_initialized() { return state().initialized; }
__attribute__((visibility("default"))) int fake_nvml_gpm_samples() { return state().gpm_samples; }

#define FAKE_NVML __attribute__((visibility("default"))) Result

FAKE_NVML nvmlInit_v2() {
  if (state().get("init_error", 0) != 0) return kUnknownError;
  ++state().initialized;
  return kSuccess;
}

FAKE_NVML nvmlShutdown() {
  --state().initialized;
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(state().get("gpus", 2));
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = reinterpret_cast<Device>(static_cast<std::size_t>(index) + 1);
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  if (state().get("lost", 0) != 0) return kUnknownError;
  const double of_all = state().get("busy", 41) + static_cast<double>(index_of(device));
  const std::string own = "busy" + std::to_string(index_of(device));
  utilization->gpu = static_cast<unsigned>(state().get(own.c_str(), of_all));
  utilization->memory = 12;
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  std::snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%s:00.0", index_of(device) == 0 ? "3B" : "19");
  return kSuccess;
}

#ifndef FAKE_NVML_OLD

FAKE_NVML nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "580.65.06");
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetName(Device device, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "%s", index_of(device) == 0 ? "NVIDIA H200" : "Tesla T4");
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const auto used = static_cast<unsigned long long>(state().get("memory_used", device, 700));
  *memory = {1000, 1000 - used, used};
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetPowerUsage(Device, unsigned* milliwatt) {
  *milliwatt = 350500;
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetTotalEnergyConsumption(Device, unsigned long long* millijoule) {
  *millijoule = 7000;
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetTemperature(Device, int, unsigned* celsius) {
  *celsius = 54;
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetClockInfo(Device, int type, unsigned* megahertz) {
  *megahertz = type == 1 ? 1980 : 3201;
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  *reasons = static_cast<unsigned long long>(state().get("throttle", device, 0));
  return kSuccess;
}

FAKE_NVML nvmlDeviceGetComputeRunningProcesses_v3(Device, unsigned* count, ProcessInfo* infos) {
  if (infos == nullptr || *count < 2) {
    *count = 2;
    return kInsufficientSize;
  }
  infos[0] = {static_cast<unsigned>(state().get("pid", 4242)), 500, 0, 0};
  infos[1] = {77, kNotAvailable, 0, 0};
  *count = 2;
  return kSuccess;
}

FAKE_NVML nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  support->supported = support->version == 1 && index_of(device) == 0 ? 1 : 0;
  return kSuccess;
}

FAKE_NVML nvmlGpmSampleAlloc(GpmSample* sample) {
  *sample = reinterpret_cast<GpmSample>(new double(-1));
  ++state().gpm_samples;
  return kSuccess;
}

FAKE_NVML nvmlGpmSampleFree(GpmSample sample) {
  delete reinterpret_cast<double*>(sample);
  --state().gpm_samples;
  return kSuccess;
}

FAKE_NVML nvmlGpmSampleGet(Device, GpmSample sample) {
  *reinterpret_cast<double*>(sample) = state().get("sm_total", 0);
  return kSuccess;
}

// A metric is its id plus the growth of "sm_total" between the samples, older first.
FAKE_NVML nvmlGpmMetricsGet(GpmMetrics* request) {
  if (request->version != 1) return kUnknownError;
  const double growth =
      *reinterpret_cast<double*>(request->sample2) - *reinterpret_cast<double*>(request->sample1);
  for (unsigned i = 0; i < request->count; ++i) {
    GpmMetric& metric = request->metrics[i];
    metric.result = metric.id == kGpmTensorUtil ? kNotSupported : kSuccess;
    metric.value = metric.id + growth;
  }
  return kSuccess;
}

#endif

}  // extern "C"
