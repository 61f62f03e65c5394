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

/// Returns whether the GPU converts `from` to `to`. Source types: u8, u16, i16, f16, bf16, f32. Output types:
/// f32, f16, bf16; for u8 also u8, whose values stay.
bool can_normalize(DType from, DType to) noexcept;

/// Returns the coefficients of the kernel as bytes to be copied to the GPU. For u8: a table of 256 entries of
/// type `to` per channel, computed in float64 and rounded once, so that f32 results are bit-equal to
/// `normalize_table`. For u8 to u8: the values themselves; of `parameters` only the number of channels
/// counts. For other sources: one `Coefficient` per channel. Throws OptionError if `can_normalize` is false,
/// or if scale/std or mean/std of a source other than u8 is outside the range of float32.
std::vector<std::byte> normalize_coefficients(const NormalizeParameters& parameters, DType from, DType to);

/// One launch of the kernel. Pointers are addresses of the current device. Sources and `out` are aligned to
/// their elements; the 4-byte words that contain the first and last element of a source must be readable in
/// full.
struct NormalizeJob {
  const void* in = nullptr;  ///< The samples, one after the other; unused with `rows`
  /// Gathers: the address of each sample, whose elements are dense. Same results as from a dense batch.
  const std::byte* const* rows = nullptr;
  DType from = DType::u8;
  void* out = nullptr;
  DType to = DType::f32;
  const void* coefficients = nullptr;           ///< From `normalize_coefficients` for the same types
  const SampleTransform* transforms = nullptr;  ///< One per sample; null: no crop, no flip
  ImageLayout layout;
  /// Use streaming stores, for outputs that do not fit the L2 cache of the device.
  bool past_caches = false;
};

/// Enqueues the kernel on `stream`, with at most 32 blocks per multiprocessor; `multiprocessors`: their
/// number on the device. Does not synchronize: the caller keeps all memory of the job alive until the kernel
/// has run. Launches nothing for an empty batch. Returns cudaErrorInvalidValue for types that `can_normalize`
/// refuses.
cudaError_t launch_normalize(const NormalizeJob& job, int multiprocessors, cudaStream_t stream) noexcept;

/// A conversion of `count` labels. Pointers are addresses of the current device, aligned to their elements.
struct ConvertJob {
  const void* in = nullptr;
  DType from = DType::u8;
  void* out = nullptr;
  DType to = DType::i64;
  std::int64_t count = 0;
};

/// Enqueues the conversion on `stream`. Does not synchronize: the caller keeps all memory of the job alive
/// until the kernel has run. `convert_element` defines the result for values that `to` cannot hold.
cudaError_t launch_convert(const ConvertJob& job, cudaStream_t stream) noexcept;

}  // namespace h5feed::gpu
