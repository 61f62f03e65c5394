// SPDX-License-Identifier: Apache-2.0
// Copies of what a loader delivered to GPUs of the fake runtime, read on a stream as a training loop would.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/loaders/deliveries.hpp"

namespace h5feed::test {

/// Copies batches on a stream of a device; the copies are complete after `wait`.
class GpuReader {
 public:
  GpuReader(FakeCuda& cuda, int device) : cuda_(cuda), device_(device) {
    const gpu::DeviceGuard guard(device);
    stream_ = gpu::make_stream(device);
  }

  cudaStream_t stream() const { return stream_.get(); }

  /// Enqueues the copy of a batch; the batch may be released afterwards.
  void read(const Batch& batch) {
    batch.gpu->use_on(stream_.get());
    Delivery& delivery = deliveries_.emplace_back(without_bytes(batch));
    delivery.shape = batch.gpu->data().shape;
    cuda_.enqueue(stream_.get(), [&delivery, tensors = batch.gpu->tensors()] {
      const auto copy = [](const DeviceTensor& tensor) {
        const auto* const begin = static_cast<const std::byte*>(tensor.data);
        return std::vector(begin, begin + bytes_in(tensor.dtype, tensor.shape));
      };
      delivery.data = copy(tensors.data);
      if (tensors.target) delivery.target = copy(*tensors.target);
      for (const DeviceField& field : tensors.fields) delivery.fields[field.name] = copy(field.values);
    });
  }

  /// Blocks until all copies are complete; returns and forgets them.
  std::vector<Delivery> wait() {
    const gpu::DeviceGuard guard(device_);
    gpu::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", {device_});
    std::vector<Delivery> all(deliveries_.begin(), deliveries_.end());
    deliveries_.clear();
    return all;
  }

 private:
  FakeCuda& cuda_;
  const int device_;
  gpu::Stream stream_;
  std::deque<Delivery> deliveries_;  // a deque: references to elements stay valid
};

/// Copies the remaining batches of an epoch on one GPU.
inline std::vector<Delivery> rest_of_gpu_epoch(FakeCuda& cuda, DataLoader& loader, int device = 0) {
  GpuReader reader(cuda, device);
  while (const auto batch = loader.next()) reader.read(*batch);
  return reader.wait();
}

/// Owns device memory for one tensor of a consumer. Movable.
class GpuBuffer {
 public:
  GpuBuffer(std::size_t bytes, int device) : device_(device) {
    const gpu::DeviceGuard guard(device);
    memory_ = gpu::make_device_memory(bytes == 0 ? 1 : bytes, device);
  }
  ~GpuBuffer() {
    const gpu::DeviceGuard guard(device_);
    memory_ = {};
  }
  GpuBuffer(GpuBuffer&&) = default;
  GpuBuffer& operator=(GpuBuffer&&) = delete;
  void* get() const { return memory_.get(); }

 private:
  const int device_;
  gpu::DeviceMemory memory_;
};

}  // namespace h5feed::test
