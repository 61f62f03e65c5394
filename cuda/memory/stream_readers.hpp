// SPDX-License-Identifier: Apache-2.0
// Streams whose kernels read some device memory, for whoever writes to it next.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "cuda/runtime/handles.hpp"

namespace h5feed::gpu {

/// The streams with kernels that read some memory of one device, each with an event behind the last of them.
/// Not thread-safe.
class StreamReaders {
 public:
  /// Records that the kernels enqueued on `stream` so far read the memory. Requires the device to be current.
  /// Throws CudaError.
  void read_on(cudaStream_t stream, const CallPlace& place) {
    std::size_t number = 0;
    while (number < size_ && readers_[number].stream != stream) ++number;
    if (number == readers_.size()) readers_.push_back({stream, make_event(place)});
    readers_[number].stream = stream;
    check(cudaEventRecord(readers_[number].done.get(), stream), "cudaEventRecord", place);
    if (number == size_) ++size_;
  }

  /// Makes `stream`, not the host, wait for all recorded kernels, and forgets them. Throws CudaError; the
  /// kernels then are not forgotten.
  void wait(cudaStream_t stream, const CallPlace& place) {
    for (std::size_t i = 0; i < size_; ++i)
      check(cudaStreamWaitEvent(stream, readers_[i].done.get(), 0), "cudaStreamWaitEvent", place);
    size_ = 0;
  }

 private:
  struct Reader {
    cudaStream_t stream = nullptr;
    Event done;
  };
  std::vector<Reader> readers_;  // the events are used again
  std::size_t size_ = 0;         // readers that are recorded
};

}  // namespace h5feed::gpu
