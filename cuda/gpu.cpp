// SPDX-License-Identifier: Apache-2.0
// The CUDA backend, and h5feed::gpu::device().
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "batch/device_backend.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/pinned_host.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(PinnedAllocator allocate) : allocate_(std::move(allocate)) {}

  std::optional<int> choose(std::string_view name) const override { return choose_device(name); }

  bool can_normalize(DType from, DType to) const override { return gpu::can_normalize(from, to); }

  std::unique_ptr<Device> make(int device, const DeviceFormat& format,
                               const DeviceCapacity& capacity) const override {
    CudaDeviceSettings settings;
    settings.device = device;
    settings.format = format;
    settings.capacity = capacity;
    return make_cuda_device(settings);
  }

  std::unique_ptr<Device> make_pinned_host(SlotBytes bytes, std::size_t buffers) const override {
    try {
      return gpu::make_pinned_host(
          {.device = device_for_pinning(), .bytes = bytes, .buffers = buffers, .allocate = allocate_});
    } catch (const DeviceError& error) {
      log_once(LogLevel::warning,
               fmt::format("pin_memory: batches are in pageable memory; {}", error.what()));
      return nullptr;
    }
  }

 private:
  const PinnedAllocator allocate_;
};

}  // namespace

LoaderDevice device(std::string name, PinnedAllocator allocate) {
  return {std::move(name), std::make_shared<const CudaBackend>(std::move(allocate))};
}

}  // namespace h5feed::gpu
