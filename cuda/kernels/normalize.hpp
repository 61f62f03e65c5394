// SPDX-License-Identifier: Apache-2.0
// The normalize kernel: cast, scale, mean, std, layout change, crop and flip in one pass over the batch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/normalize.hpp"
#include "cuda/kernels/image_layout.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed::gpu {

/// Source types: u8, u16, i16, f16, bf16, f32. Output types: f32, f16, bf16; and u8 for u8, whose values
/// stay.
bool can_normalize(DType from, DType to) noexcept;

/// What the kernel multiplies by, as bytes to be copied to the GPU. For u8 a table of 256 entries of type
/// `to` a channel, computed in float64 and rounded once, so that f32 results are bit-equal to
/// `normalize_table`; the values themselves where `to` is u8, of `parameters` then the channels alone count.
/// For other sources a `Coefficient` a channel.
/// Throws OptionError where `can_normalize` is false, and where scale/std or mean/std of a source other
/// than u8 is beyond float32.
std::vector<std::byte> normalize_coefficients(const NormalizeParameters& parameters, DType from, DType to);

/// One launch. Addresses are in the memory of the current device. `in` and `out` are aligned to their
/// elements; the words of 4 bytes that hold the first and last element of `in` are readable whole.
struct NormalizeJob {
  const void* in = nullptr;
  DType from = DType::u8;
  void* out = nullptr;
  DType to = DType::f32;
  const void* coefficients = nullptr;           ///< of `normalize_coefficients` for the same types
  const SampleTransform* transforms = nullptr;  ///< one a sample; null: no crop, no flip
  ImageLayout layout;
  /// Stores leave the L2 cache alone: for outputs that do not fit there anyway.
  bool past_caches = false;
};

/// Enqueues the kernel on `stream`, with at most 32 blocks for each of the device's `multiprocessors`. Does
/// not synchronize: the caller keeps all memory of the job alive until the kernel has run. A batch of no
/// sample launches nothing.
cudaError_t launch_normalize(const NormalizeJob& job, int multiprocessors, cudaStream_t stream) noexcept;

/// One conversion of `count` labels; addresses as for NormalizeJob.
struct ConvertJob {
  const void* in = nullptr;
  DType from = DType::u8;
  void* out = nullptr;
  DType to = DType::i64;
  std::int64_t count = 0;
};

/// As `launch_normalize`. Values that `to` cannot hold: see `convert_element`.
cudaError_t launch_convert(const ConvertJob& job, cudaStream_t stream) noexcept;

}  // namespace h5feed::gpu
