// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_choice.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "base/byte_units.hpp"
#include "cuda/nvml/nvml.hpp"
#include "cuda/runtime/check.hpp"
#include "cuda/runtime/contexts.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

struct VisibleDevices {
  int count = 0;
  cudaError_t code = cudaSuccess;  // an error if there is none
};

VisibleDevices visible_devices() {
  VisibleDevices devices;
  devices.code = cudaGetDeviceCount(&devices.count);
  if (devices.code == cudaSuccess && devices.count == 0) devices.code = cudaErrorNoDevice;
  return devices;
}

// Returns the free memory of a device; 0 if the device fails. Asks NVML if it is available, because CUDA
// creates a context of some hundred MiB for the query.
std::uint64_t free_bytes(Nvml* nvml, int device) {
  if (nvml != nullptr) {
    const std::optional<unsigned> gpu = nvml->find(pci_id_of(device));
    if (gpu) {
      if (const auto free = nvml->read(*gpu).memory_free_bytes) return *free;
    }
  }
  std::size_t free = 0;
  // A device that fails here is tried last; its error is reported if it is used.
  ignore_error(free_memory(device, free));
  return free;
}

// Returns the device that the program has chosen: one that it made current, or device 0 if it is current and
// has a context, as after cudaSetDevice(0).
std::optional<int> chosen_by_program() {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice", {0});
  if (current == 0 && !has_context(0)) return std::nullopt;
  return current;
}

// Returns the devices to try, best first.
std::vector<int> candidates(int count) {
  if (const std::optional<int> chosen = chosen_by_program()) return {*chosen};
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  if (count == 1) return devices;
  std::string no_nvml;
  const std::shared_ptr<Nvml> nvml = Nvml::load("", no_nvml);
  std::vector<std::uint64_t> free;
  for (const int device : devices) free.push_back(free_bytes(nvml.get(), device));
  std::ranges::stable_sort(devices, std::ranges::greater(),
                           [&](int device) { return free[static_cast<std::size_t>(device)]; });
  return devices;
}

std::optional<int> automatic() {
  const auto [count, code] = visible_devices();
  if (code != cudaSuccess) {
    ignore_error(code);
    log_once(LogLevel::warning, fmt::format("device \"auto\": batches go to the CPU; {}", why_no_gpu(code)));
    return std::nullopt;
  }
  std::string why;
  try {
    for (const int device : candidates(count)) {
      try {
        // Creates the context that the loader needs: another process may use the device exclusively.
        const DeviceGuard guard(device);
        log(LogLevel::info, fmt::format("device \"auto\": cuda:{} (PCI {})", device, pci_id_of(device)));
        return device;
      } catch (const DeviceError& error) {
        if (why.empty()) why = error.what();
      }
    }
  } catch (const DeviceError& error) {
    why = error.what();
  }
  log_once(LogLevel::warning,
           fmt::format("device \"auto\": batches go to the CPU because the GPU failed: {}", why));
  return std::nullopt;
}

}  // namespace

std::optional<int> ordinal_in(std::string_view name) {
  if (name == "auto") return std::nullopt;
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (name.starts_with(kPrefix)) {
    const std::string_view digits = name.substr(kPrefix.size());
    int ordinal = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0) return ordinal;
  }
  throw OptionError(fmt::format("device \"{}\" is none of \"cpu\", \"cuda\", \"cuda:N\", \"auto\"", name));
}

std::optional<int> choose_device(std::string_view name) {
  const std::optional<int> ordinal = ordinal_in(name);
  if (!ordinal) return automatic();
  const auto [count, code] = visible_devices();
  if (means_no_gpu(code)) {
    ignore_error(code);
    throw CudaError(fmt::format("device \"{}\": {}", name, why_no_gpu(code)), code);
  }
  check(code, "cudaGetDeviceCount", {*ordinal});
  if (*ordinal >= count) {
    throw OptionError(fmt::format("device \"{}\": this process sees {}; choose one of them", name,
                                  count == 1 ? "cuda:0 only" : fmt::format("cuda:0 to cuda:{}", count - 1)));
  }
  return ordinal;
}

int device_for_pinning() {
  const cudaError_t code = visible_devices().code;
  if (means_no_gpu(code)) {
    ignore_error(code);
    throw CudaError(why_no_gpu(code, "leave pin_memory unset"), code);
  }
  check(code, "cudaGetDeviceCount", {0});
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice", {0});
  return current;
}

std::string pci_id_of(int device) {
  std::array<char, 32> text = {};
  const cudaError_t code = cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device);
  if (code != cudaSuccess) {
    ignore_error(code);
    return "unknown";
  }
  return text.data();
}

}  // namespace h5feed::gpu
