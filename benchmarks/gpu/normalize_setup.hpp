// SPDX-License-Identifier: Apache-2.0
// Runs the normalize kernel on a batch in GPU memory, and a copy that moves as many bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

#include "cuda/kernels/normalize.hpp"
#include "cuda/runtime/handles.hpp"
#include "gpu/bench.hpp"

namespace h5feed::bench {

/// A variant of the normalize kernel, from uint8 to `to`.
struct NormalizeCase {
  const char* name;
  DType to;
  bool augmented = false;          ///< with flip and crop
  bool past_caches = false;        ///< with streaming stores, which bypass the caches
  bool in_channels_last = false;   ///< input is NHWC, else NCHW
  bool out_channels_last = false;  ///< output is NHWC, else NCHW
  bool gathered = false;           ///< samples in random order, by their addresses
};

/// Owns the memory of the kernel and of the copy. For one thread.
class NormalizeSetup {
 public:
  /// Allocates the memory and fills both sources with the same noise, then keeps the GPU busy for
  /// `Sizes::spin_time`. Borrows `stream`. Throws CudaError.
  NormalizeSetup(const Bench& bench, const NormalizeCase& what, cudaStream_t stream);

  /// Returns the seconds of one kernel launch, as the mean of many in a row on the stream. Blocks.
  double kernel_seconds();
  /// Returns the seconds of one copy, as the mean of many in a row on the stream. Blocks.
  double copy_seconds();
  /// Returns the seconds of one call of `launch`, which enqueues onto the stream, as the mean of many in a
  /// row. Blocks.
  double seconds(const std::function<void()>& launch);

  /// Returns the bytes that a launch reads and writes; a copy of half as many bytes reads and writes the same
  /// number.
  std::size_t moved_bytes() const noexcept { return moved_bytes_; }
  /// Returns the images in device memory: random uint8 of shape (samples, 3, side, side), or with channels
  /// last.
  void* images() const noexcept { return in_.get(); }
  /// Returns types, shape, layouts and variant for a row's note.
  std::string description() const;

 private:
  const NormalizeCase what_;
  const int device_;
  const int launches_;
  const cudaStream_t stream_;
  int multiprocessors_ = 1;
  std::size_t moved_bytes_ = 0;
  gpu::NormalizeJob job_;
  gpu::DeviceMemory in_, out_, coefficients_, crops_, rows_, copy_from_, copy_to_;
};

}  // namespace h5feed::bench
