// SPDX-License-Identifier: Apache-2.0
// The CUDA backend, and h5feed::gpu::device().
#include <memory>
#include <string>
#include <utility>

#include "batch/device_backend.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/kernels/normalize.hpp"
#include "h5feed/device.hpp"
#include "h5feed/gpu.hpp"

namespace h5feed::gpu {
namespace {

class CudaBackend final : public DeviceBackend {
 public:
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
};

}  // namespace

LoaderDevice device(std::string name) { return {std::move(name), std::make_shared<const CudaBackend>()}; }

}  // namespace h5feed::gpu
