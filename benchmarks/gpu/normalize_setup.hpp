// The normalize kernel over a batch in GPU memory, and a copy that moves as many bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

#include "cuda/handles.hpp"
#include "cuda/normalize.hpp"
#include "gpu/bench.hpp"

namespace h5feed::bench {

struct NormalizeCase {
  const char* name;
  DType to;
  bool augmented = false;          ///< flip and crop
  bool past_caches = false;        ///< streaming stores
  bool in_channels_last = false;   ///< NHWC, else NCHW
  bool out_channels_last = false;  ///< likewise
};

/// Owns the memory of both. For one thread.
class NormalizeSetup {
 public:
  /// Throws CudaError.
  NormalizeSetup(const Bench& bench, const NormalizeCase& what, cudaStream_t stream);

  /// Seconds of one launch, of many in a row on the stream.
  double kernel_seconds();
  double copy_seconds();
  /// The same of anything else that enqueues onto the stream.
  double seconds(const std::function<void()>& launch);

  /// Bytes that a launch reads and writes. A copy of half as many reads and writes the same number.
  std::size_t moved_bytes() const noexcept { return moved_bytes_; }
  /// The images, random uint8 of (samples, 3, side, side), or the same number otherwise ordered.
  void* images() const noexcept { return in_.get(); }
  std::string description() const;

 private:
  const NormalizeCase what_;
  const int device_;
  const int launches_;
  const cudaStream_t stream_;
  int multiprocessors_ = 1;
  std::size_t moved_bytes_ = 0;
  gpu::NormalizeJob job_;
  gpu::DeviceMemory in_, out_, coefficients_, crops_, copy_from_, copy_to_;
};

}  // namespace h5feed::bench
