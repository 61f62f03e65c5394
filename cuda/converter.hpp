// SPDX-License-Identifier: Apache-2.0
// The kernels of one device: from a batch as it was copied to a batch as it is delivered.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "batch/device_backend.hpp"
#include "cuda/memory/device_memory.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// A batch in GPU memory, as copied. Addresses are of the device.
struct StagedBatch {
  const std::byte* data = nullptr;
  const std::byte* target = nullptr;
  const SampleTransform* transforms = nullptr;  ///< of this delivery; null where the format has none
  std::int64_t samples = 0;
  std::int64_t target_elements = 0;  ///< 0 without target
};

/// Immutable after construction; thread-safe.
class Converter {
 public:
  /// With `device` current; `upload` is a stream of it, idle when the constructor returns. Throws
  /// OptionError, CudaError.
  Converter(const DeviceFormat& format, int device, cudaStream_t upload,
            std::shared_ptr<MemoryLedger> ledger);

  /// Enqueues what makes `data` and `target` on `stream`. Does not synchronize. Throws CudaError.
  void enqueue(const StagedBatch& from, void* data, void* target, cudaStream_t stream,
               const CallPlace& place) const;

  const DeviceFormat& format() const noexcept { return format_; }
  /// Bytes of one sample as copied, and of a full batch as delivered.
  std::size_t staged_sample_bytes() const noexcept;
  SlotBytes delivered_bytes() const noexcept;

 private:
  void convert_data(const StagedBatch& from, void* data, cudaStream_t stream, const CallPlace& place) const;

  const DeviceFormat format_;
  CountedMemory coefficients_;
  int multiprocessors_ = 1;
};

}  // namespace h5feed::gpu
