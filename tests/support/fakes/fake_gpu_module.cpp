// SPDX-License-Identifier: Apache-2.0
// What python/tests/fake_gpu.py calls, by ctypes, of the fake CUDA runtime in the h5feed._gpu of the tests.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>

#include "cuda/runtime/handles.hpp"
#include "support/fakes/fake_cuda.hpp"

namespace {

using h5feed::test::FakeCuda;

std::unique_ptr<FakeCuda> machine;

// Makes a device current and returns `result` of the call, null if it failed.
template <typename Call>
void* on_device(int device, Call&& call) {
  const h5feed::gpu::DeviceGuard guard(device);
  void* result = nullptr;
  return call(&result) == cudaSuccess ? result : nullptr;
}

}  // namespace

#define FAKE_GPU extern "C" __attribute__((visibility("default")))

/// Starts a machine with so many GPUs; none: CUDA answers that the driver is missing.
FAKE_GPU void fake_gpu_start(int devices) {
  h5feed::test::FakeCudaSettings settings{.devices = devices == 0 ? 1 : devices};
  if (devices == 0) {
    settings.device_count_error = cudaErrorInsufficientDriver;
    settings.driver_version = 0;
  }
  machine = std::make_unique<FakeCuda>(settings);
}

/// Ends the machine. Nothing may use CUDA afterwards.
FAKE_GPU void fake_gpu_stop() { machine.reset(); }

/// Returns how many streams, events, allocations and registrations exist.
FAKE_GPU std::size_t fake_gpu_objects() {
  const h5feed::test::FakeCudaLive live = machine->live();
  return live.streams + live.events + live.device_allocations + live.pinned_allocations + live.registrations;
}

/// Returns the number of calls of a runtime function since the start.
FAKE_GPU std::size_t fake_gpu_calls(const char* function) { return machine->calls_of(function); }

/// Makes the next call of a runtime function fail for want of memory.
FAKE_GPU void fake_gpu_fail(const char* function) {
  machine->fail_call_of(function, 1, cudaErrorMemoryAllocation);
}

FAKE_GPU void* fake_gpu_allocate(std::size_t bytes, int device) {
  return on_device(device, [&](void** data) { return cudaMalloc(data, bytes == 0 ? 1 : bytes); });
}

FAKE_GPU void fake_gpu_free(void* data) { static_cast<void>(cudaFree(data)); }

FAKE_GPU void* fake_gpu_make_stream(int device) {
  return on_device(device, [](void** stream) {
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking);
  });
}

FAKE_GPU void fake_gpu_end_stream(void* stream) {
  static_cast<void>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
}

/// Enqueues, as a kernel of the consumer would, a copy of GPU memory to host memory.
FAKE_GPU void fake_gpu_read(void* stream, void* to, const void* from, std::size_t bytes) {
  machine->enqueue(static_cast<cudaStream_t>(stream), [=] { std::memcpy(to, from, bytes); });
}

/// Waits until no thread of the runtime has work, so that none holds a lock in a forked child.
FAKE_GPU void fake_gpu_wait() {
  for (const cudaStream_t stream : machine->streams()) static_cast<void>(cudaStreamSynchronize(stream));
}

FAKE_GPU void fake_gpu_synchronize(void* stream) {
  static_cast<void>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}
