// SPDX-License-Identifier: Apache-2.0
// Batches on GPUs as tensors of LibTorch. Part of h5feed/torch.hpp where both h5feed and LibTorch are built
// with CUDA.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <string>
#include <utility>

#include "h5feed/batch.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/torch/tensor.hpp"

namespace h5feed::detail {

/// The two tensors of a batch; an undefined `target` where the dataset has none.
struct TorchTensors {
  at::Tensor data;
  at::Tensor target;
};

inline GpuStream current_torch_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

inline at::Tensor empty_on_gpu(int device, const DeviceTensor& like) {
  const auto options = at::TensorOptions()
                           .dtype(torch_dtype(like.dtype).value())
                           .device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
  return at::empty_strided(like.shape, like.strides, options);
}

/// Memory for one batch from LibTorch's caching allocator, on the stream that is current for the device on
/// this thread, and the batch is made on that stream too. So the allocator's own rule is kept: a tensor that
/// is let go is given out again behind what is enqueued there. On other streams it needs `record_stream`, as
/// every tensor.
inline DeviceOutput torch_output(int device, const DeviceTensor& data, const DeviceTensor* target) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const auto tensors = std::make_shared<TorchTensors>();
  tensors->data = empty_on_gpu(device, data);
  if (target != nullptr) tensors->target = empty_on_gpu(device, *target);
  DeviceOutput output;
  output.data = tensors->data.data_ptr();
  output.target = target != nullptr ? tensors->target.data_ptr() : nullptr;
  output.stream = current_torch_stream(device);
  output.owner = tensors;
  return output;
}

/// A view of the loader's ring that keeps its batch. LibTorch's `record_stream` does nothing for such memory:
/// the batch may be used on the stream that is current now, and on no other.
inline at::Tensor ring_tensor(const std::shared_ptr<DeviceBatch>& batch, const DeviceTensor& tensor) {
  if (!tensor.defined()) return {};
  const auto options = at::TensorOptions()
                           .dtype(torch_dtype(tensor.dtype).value())
                           .device(at::kCUDA, static_cast<c10::DeviceIndex>(batch->device()));
  return torch::from_blob(
      tensor.data, tensor.shape, tensor.strides, [owner = batch](void*) mutable { owner.reset(); }, options);
}

/// The tensors of a batch that is on a GPU.
inline TorchTensors cuda_tensors(const Batch& batch) {
  if (const std::shared_ptr<void> owner = batch.gpu->owner())
    return *std::static_pointer_cast<TorchTensors>(owner);
  batch.gpu->use_on(current_torch_stream(batch.gpu->device()));
  return {ring_tensor(batch.gpu, batch.gpu->data()), ring_tensor(batch.gpu, batch.gpu->target())};
}

inline DeviceTensor view_of(const at::Tensor& tensor, const char* name) {
  if (!tensor.defined()) return {};
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!tensor.is_cuda() || !dtype) {
    throw OptionError(std::string("next_into: ") + name + " is " + tensor.toString() +
                      "; give a tensor of numbers on the GPU that the loader delivers to");
  }
  return {tensor.data_ptr(), *dtype, tensor.sizes().vec(), tensor.strides().vec()};
}

/// The next batch, written to these tensors on the stream that is current for their device.
inline OptionalBatch<Batch> next_into(DataLoader& loader, const at::Tensor& data, const at::Tensor& target) {
  if (!data.defined()) throw OptionError("next_into: data is undefined; give a tensor on the GPU");
  const DeviceTensor images = view_of(data, "data");
  return loader.next_into(images, view_of(target, "target"),
                          current_torch_stream(static_cast<int>(data.get_device())));
}

/// What gives a TorchDataLoader's batches their memory on a GPU: LibTorch's allocator, unless the options ask
/// for the loader's ring.
inline ProvideOutput torch_provider(const DataLoaderOptions& options) {
  return options.output_memory == OutputMemory::ring ? ProvideOutput() : ProvideOutput(torch_output);
}

/// Completes the options of a TorchDataLoader on a GPU: h5feed's backend, and memory as `torch_provider`
/// says.
inline void prepare_for_cuda(DataLoaderOptions& options) {
  if (!options.device_backend) options.device_backend = gpu::backend();
  // "auto" follows what is current for CUDA, which LibTorch tells it only with its next call.
  if (options.device == "auto" && c10::cuda::device_count() > 0) {
    if (const auto current = c10::cuda::current_device(); current != 0)
      C10_CUDA_CHECK(cudaSetDevice(current));
  }
  if (!options.output_memory) options.output_memory = OutputMemory::consumer;
}

}  // namespace h5feed::detail
