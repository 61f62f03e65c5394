// SPDX-License-Identifier: Apache-2.0
// Batches on GPUs as LibTorch tensors. h5feed/torch.hpp includes this file if both h5feed and LibTorch are
// built with CUDA.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/torch/tensor.hpp"

namespace h5feed::detail {

/// The tensors of a batch on a GPU; `target` is undefined if the dataset has none.
struct TorchTensors {
  at::Tensor data;
  at::Tensor target;
  std::map<std::string, at::Tensor> fields;  ///< Those of `DeviceTensors::fields`
};

/// Returns LibTorch's current stream of this thread for a device.
inline GpuStream current_torch_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

/// Allocates a tensor of the dtype, shape and strides of `like` from LibTorch's caching allocator, on the
/// current stream.
inline at::Tensor empty_on_gpu(int device, const DeviceTensor& like) {
  const auto options = at::TensorOptions()
                           .dtype(torch_dtype(like.dtype).value())
                           .device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
  return at::empty_strided(like.shape, like.strides, options);
}

/// Returns memory for one batch from LibTorch's caching allocator, for the stream that is current for the
/// device on this thread; the batch is produced on that stream, too. This keeps the rule of the allocator:
/// memory of a released tensor is reused in the order of that stream. As with any tensor, use on other
/// streams needs `record_stream`. Throws c10::Error if memory runs out, DatasetError if LibTorch lacks the
/// dtype of a field.
inline DeviceOutput torch_output(int device, const DeviceTensors& batch) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const auto tensors = std::make_shared<TorchTensors>();
  DeviceOutput output;
  tensors->data = empty_on_gpu(device, batch.data);
  output.data = tensors->data.data_ptr();
  if (batch.target) {
    tensors->target = empty_on_gpu(device, *batch.target);
    output.target = tensors->target.data_ptr();
  }
  for (const DeviceField& field : batch.fields) {
    require_torch_field(field.name, field.values.dtype);
    const at::Tensor values = empty_on_gpu(device, field.values);
    output.fields.push_back(values.data_ptr());
    tensors->fields.emplace(field.name, values);
  }
  output.stream = current_torch_stream(device);
  output.owner = tensors;
  return output;
}

/// Returns a view of memory of the loader's ring; the view keeps its batch alive. LibTorch's `record_stream`
/// has no effect on such memory: the tensor may be used only on the stream that is current now.
inline at::Tensor ring_tensor(const std::shared_ptr<DeviceBatch>& batch, const DeviceTensor& tensor) {
  if (!tensor.defined()) return {};
  const auto options = at::TensorOptions()
                           .dtype(torch_dtype(tensor.dtype).value())
                           .device(at::kCUDA, static_cast<c10::DeviceIndex>(batch->device()));
  return torch::from_blob(
      tensor.data, tensor.shape, tensor.strides, [owner = batch](void*) mutable { owner.reset(); }, options);
}

/// Returns the tensors of a batch on a GPU, ready for use on the current stream. Throws DatasetError if
/// LibTorch lacks the dtype of a field.
inline TorchTensors cuda_tensors(const Batch& batch) {
  if (const std::shared_ptr<void> owner = batch.gpu->owner())
    return *std::static_pointer_cast<TorchTensors>(owner);
  batch.gpu->use_on(current_torch_stream(batch.gpu->device()));
  TorchTensors tensors{
      ring_tensor(batch.gpu, batch.gpu->data()), ring_tensor(batch.gpu, batch.gpu->target()), {}};
  for (const DeviceField& field : batch.gpu->tensors().fields) {
    require_torch_field(field.name, field.values.dtype);
    tensors.fields.emplace(field.name, ring_tensor(batch.gpu, field.values));
  }
  return tensors;
}

/// Returns a non-owning view of a CUDA tensor; empty if it is undefined. `name` is for messages. Throws
/// OptionError if the tensor is not on a GPU or its dtype is not supported.
inline DeviceTensor view_of(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) return {};
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!tensor.is_cuda() || !dtype) {
    throw OptionError("next_into: " + name + " is " + tensor.toString() +
                      "; give a tensor of numbers on the GPU that the loader delivers to");
  }
  return {tensor.data_ptr(), *dtype, tensor.sizes().vec(), tensor.strides().vec()};
}

/// Writes the next batch to `data`, `target` and `fields`, on the stream that is current for their device.
/// Throws OptionError if a tensor is not suitable, and whatever `DataLoader::next_into` throws.
inline OptionalBatch<Batch> next_into(DataLoader& loader, const at::Tensor& data, const at::Tensor& target,
                                      const std::map<std::string, at::Tensor>& fields) {
  if (!data.defined()) throw OptionError("next_into: data is undefined; give a tensor on the GPU");
  const DeviceTensor images = view_of(data, "data");
  std::vector<DeviceField> views;
  for (const auto& [name, tensor] : fields)
    views.push_back({name, view_of(tensor, "field \"" + name + "\"")});
  return loader.next_into(images, view_of(target, "target"),
                          current_torch_stream(static_cast<int>(data.get_device())), views);
}

/// Returns the allocator of a TorchDataLoader's batches on a GPU: LibTorch's, or none if the options ask for
/// the loader's ring.
inline ProvideOutput torch_provider(const DataLoaderOptions& options) {
  return options.output_memory == OutputMemory::ring ? ProvideOutput() : ProvideOutput(torch_output);
}

/// Deleter of memory that a tensor owns.
struct TensorOwner {
  at::Tensor tensor;
  void operator()(std::byte*) noexcept { tensor.reset(); }
};

/// Allocates pinned memory from LibTorch's caching allocator. It does not reuse memory while copies from its
/// tensors run. Throws c10::Error if it cannot be pinned.
inline std::shared_ptr<std::byte> torch_pinned_memory(std::size_t bytes) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  auto* const data = static_cast<std::byte*>(tensor.data_ptr());
  return {data, TensorOwner{std::move(tensor)}};
}

/// Returns the tensor of a CPU batch without copying it. Memory of `torch_pinned_memory` becomes a tensor of
/// the same storage: LibTorch notes the streams that copy from it or from its views only there.
inline at::Tensor cpu_tensor(HostTensor host) {
  const TensorOwner* const owner = std::get_deleter<TensorOwner>(host.bytes);
  if (owner == nullptr) return to_tensor(std::move(host));
  const at::Tensor bytes =
      owner->tensor.narrow(0, 0, host.elements() * static_cast<std::int64_t>(size_of(host.dtype)));
  const at::Tensor flat = bytes.view(torch_dtype(host.dtype).value());
  return host.strides.empty() ? flat.view(host.shape) : flat.as_strided(host.shape, host.strides);
}

/// Makes loaders free memory of `gpu_cache_bytes` that the model needs. LibTorch's allocator executes it
/// before it takes memory from the driver. What is freed goes to the driver, so that LibTorch need not search
/// its own blocks again.
class KeepMemoryFree final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    gpu::keep_memory_free(c10::cuda::current_device());  // of which memory is asked for
    return false;
  }
};

/// Registers KeepMemoryFree, unless another library of the process has done so.
inline bool register_keep_memory_free() {
  auto* const registry = c10::FreeCudaMemoryCallbacksRegistry();
  if (!registry->Has("h5feed"))
    registry->Register("h5feed", [] { return std::make_unique<KeepMemoryFree>(); });
  return true;
}

/// Registered when the program starts, because LibTorch reads its list of callbacks without a lock.
inline const bool kKeepsMemoryFree = register_keep_memory_free();

/// Completes the options of a TorchDataLoader with CUDA: sets h5feed's backend, unless one is set, and memory
/// of the consumer, unless a kind is set. For "auto", makes LibTorch's current device current for CUDA.
/// Throws c10::Error if a CUDA call fails.
inline void prepare_for_cuda(DataLoaderOptions& options) {
  if (!options.device.backend()) options.device = gpu::device(options.device.name(), torch_pinned_memory);
  // "auto" follows the device that is current for CUDA; LibTorch sets it only with its next CUDA call.
  if (options.device.name() == "auto" && c10::cuda::device_count() > 0) {
    if (const auto current = c10::cuda::current_device(); current != 0)
      C10_CUDA_CHECK(cudaSetDevice(current));
  }
  if (!options.output_memory) options.output_memory = OutputMemory::consumer;
}

}  // namespace h5feed::detail
