// SPDX-License-Identifier: Apache-2.0
// Streams whose kernels read some device memory, for whoever writes to it next.
#pragma once

#include <cuda_runtime_api.h>

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
    unsigned long long id = 0;  // unlike the handle, never given to another stream
    check(cudaStreamGetId(stream, &id), "cudaStreamGetId", place);
    Reader& reader = reader_of(id, place);
    check(cudaEventRecord(reader.done.get(), stream), "cudaEventRecord", place);
    reader.stream = id;
    reader.recorded = true;
  }

  /// Makes `stream`, not the host, wait for all recorded kernels, and forgets them. Throws CudaError; the
  /// kernels then are not forgotten.
  void wait(cudaStream_t stream, const CallPlace& place) {
    for (const Reader& reader : readers_) {
      if (reader.recorded)
        check(cudaStreamWaitEvent(stream, reader.done.get(), 0), "cudaStreamWaitEvent", place);
    }
    for (Reader& reader : readers_) reader.recorded = false;
  }

 private:
  struct Reader {
    unsigned long long stream = 0;  // id of the stream
    Event done;
    bool recorded = false;
  };

  // Returns the reader of a stream: one whose kernels are done serves another stream, so that there are no
  // more readers than streams that read at the same time.
  Reader& reader_of(unsigned long long stream, const CallPlace& place) {
    for (Reader& reader : readers_) {
      if (reader.recorded && reader.stream == stream) return reader;
    }
    for (Reader& reader : readers_) {
      if (reader.recorded) {
        const cudaError_t code = cudaEventQuery(reader.done.get());
        ignore_error(code);
        reader.recorded = code != cudaSuccess;
      }
      if (!reader.recorded) return reader;
    }
    return readers_.emplace_back(Reader{.done = make_event(place)});
  }

  std::vector<Reader> readers_;
};

}  // namespace h5feed::gpu
