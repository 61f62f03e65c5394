// SPDX-License-Identifier: Apache-2.0
// Converts copied batches to delivered batches with the kernels of one device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "batch/device_backend.hpp"
#include "cuda/memory/device_memory.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// A named field in GPU memory as copied from the host, which is as it is delivered.
struct StagedField {
  const std::byte* values = nullptr;  ///< Device address
  std::size_t bytes = 0;
};

/// A batch in GPU memory as copied from the host. All pointers are device addresses.
struct StagedBatch {
  const std::byte* data = nullptr;
  const std::byte* const* rows = nullptr;  ///< Address of each sample; null: they follow each other at `data`
  const std::byte* target = nullptr;
  const SampleTransform* transforms = nullptr;  ///< Transforms of this delivery; null if the format has none
  /// Number of samples.
  std::int64_t samples = 0;
  std::int64_t target_elements = 0;      ///< Elements of the target; 0 without target
  std::vector<StagedField> fields = {};  ///< The fields that are delivered on the GPU
};

/// Enqueues the conversion of batches. Immutable after construction and thread-safe. Owns the coefficients on
/// the device.
class Converter {
 public:
  /// Requires `device` to be current and `upload` to be one of its streams. Blocks until the coefficients are
  /// uploaded. Throws OptionError if the types cannot be converted, CudaError.
  Converter(const DeviceFormat& format, int device, cudaStream_t upload,
            std::shared_ptr<MemoryLedger> ledger);

  /// Enqueues the kernels and copies that write a batch to `to`, memory of the device, on its stream. Does
  /// not synchronize: the caller keeps all memory alive until they have run. Throws CudaError.
  void enqueue(const StagedBatch& from, const DeviceOutput& to, const CallPlace& place) const;

  const DeviceFormat& format() const noexcept { return format_; }
  /// Bytes of one sample as copied.
  std::size_t staged_sample_bytes() const noexcept;
  /// Bytes of a full batch as delivered.
  SlotBytes delivered_bytes() const noexcept;

 private:
  void convert_data(const StagedBatch& from, void* data, cudaStream_t stream, const CallPlace& place) const;

  const DeviceFormat format_;
  CountedMemory coefficients_;
  int multiprocessors_ = 1;
  int l2_cache_bytes_ = 0;
};

}  // namespace h5feed::gpu
