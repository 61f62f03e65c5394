#include "cuda/device_choice.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/byte_units.hpp"
#include "cuda/check.hpp"
#include "cuda/handles.hpp"
#include "cuda/nvml.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

// Asked of NVML where it can be: CUDA creates a context, of some hundred MiB, on every device it is asked
// for.
std::uint64_t free_bytes(Nvml* nvml, int device) {
  if (nvml != nullptr) {
    const std::optional<unsigned> gpu = nvml->find(pci_id_of(device));
    if (gpu) {
      if (const auto free = nvml->read(*gpu).memory_free_bytes) return *free;
    }
  }
  const DeviceGuard guard(device);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", {device});
  return free;
}

// The program's own choice where it made one; else the device with most free memory.
int best_device(int count) {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice", {0});
  if (current != 0 || count == 1) return current;
  std::string no_nvml;
  const std::shared_ptr<Nvml> nvml = Nvml::load("", no_nvml);
  int best = 0;
  std::uint64_t most = 0;
  for (int device = 0; device < count; ++device) {
    const std::uint64_t free = free_bytes(nvml.get(), device);
    if (free > most) {
      most = free;
      best = device;
    }
  }
  return best;
}

std::optional<int> automatic() {
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) {
    ignore_error(code);
    log(LogLevel::info, fmt::format("device \"auto\": the CPU; {}", why_no_gpu(code)));
    return std::nullopt;
  }
  try {
    const int device = best_device(count);
    log(LogLevel::info, fmt::format("device \"auto\": cuda:{} (PCI {})", device, pci_id_of(device)));
    return device;
  } catch (const DeviceError& error) {
    log(LogLevel::warning,
        fmt::format("device \"auto\": the CPU, as a GPU is there but fails: {}", error.what()));
    return std::nullopt;
  }
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
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
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
