// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/given_batch.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {
namespace {

void check_address(const CallPlace& place, std::string_view name, const void* address,
                   const DeviceTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= extent;
  if (elements == 0) return;
  if (reinterpret_cast<std::uintptr_t>(address) % size_of(tensor.dtype) != 0) {
    throw OptionError(
        fmt::format("next_into: the address of {} is not aligned to {}", name, name_of(tensor.dtype)));
  }
  cudaPointerAttributes attributes = {};
  const cudaError_t code =
      address == nullptr ? cudaErrorInvalidValue : cudaPointerGetAttributes(&attributes, address);
  if (code != cudaErrorInvalidValue) check(code, "cudaPointerGetAttributes", place);
  ignore_error(code);
  const bool on_device = attributes.type == cudaMemoryTypeDevice && attributes.device == place.device;
  if (!on_device && attributes.type != cudaMemoryTypeManaged) {
    throw OptionError(
        fmt::format("next_into: {} is not in memory of cuda:{}; allocate it there", name, place.device));
  }
}

class GivenBatch final : public DeviceBatch {
 public:
  GivenBatch(const CallPlace& place, const DeviceOutput& given, DeviceTensors tensors)
      : place_(place), stream_(given.stream), owner_(given.owner), tensors_(std::move(tensors)) {}

  int device() const noexcept override { return place_.device; }
  const DeviceTensors& tensors() const noexcept override { return tensors_; }

  std::shared_ptr<void> owner() const noexcept override { return owner_; }

  void use_on(GpuStream stream) override {
    if (stream == stream_) return;
    const DeviceGuard guard(device());
    const Event made = make_event(place_);
    check(cudaEventRecord(made.get(), stream_), "cudaEventRecord", place_);
    check(cudaStreamWaitEvent(stream, made.get(), 0), "cudaStreamWaitEvent", place_);
  }

 private:
  const CallPlace place_;
  const cudaStream_t stream_;
  const std::shared_ptr<void> owner_;
  const DeviceTensors tensors_;
};

}  // namespace

void check_given(const CallPlace& place, const DeviceOutput& given, const DeviceTensors& tensors) {
  check_address(place, "data", given.data, tensors.data);
  if (tensors.target) check_address(place, "target", given.target, *tensors.target);
  for (std::size_t i = 0; i < tensors.fields.size(); ++i) {
    const DeviceField& field = tensors.fields[i];
    check_address(place, fmt::format("field \"{}\"", field.name), given.fields[i], field.values);
  }
}

std::shared_ptr<DeviceBatch> make_given_batch(const CallPlace& place, const DeviceOutput& given,
                                              DeviceTensors tensors) {
  return std::make_shared<GivenBatch>(place, given, std::move(tensors));
}

}  // namespace h5feed::gpu
