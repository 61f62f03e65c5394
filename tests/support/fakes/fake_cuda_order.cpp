// SPDX-License-Identifier: Apache-2.0
// Functions of the fake runtime for streams, events and errors.
#include <utility>

#include "support/fakes/fake_cuda_runtime.hpp"

using namespace h5feed::test::fake;  // NOLINT: the functions below have the runtime's names

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  auto made = std::make_unique<CUstream_st>();
  made->device = current_device();
  *stream = made.get();
  start(r, *made);
  r.streams.push_back(std::move(made));
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  use_context(r);
  if (stream_of(r, stream) == nullptr) misuse("cudaStreamDestroy of a stream that does not exist");
  stream->live = false;
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  ++r.waits;
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr || !r.events.contains(event)) return remember(cudaErrorInvalidResourceHandle);
  if (r.ignored_wait == r.waits || !event->latest) return cudaSuccess;
  enqueue_locked(r, *target, {{}, event->latest, {}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_unsafe(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return idle(*target) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  const cudaError_t error = enter_unsafe(r);
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  // Even with an error, the work is done when the call returns.
  host_wait(r, lock, [&] { return idle(*target); });
  return error != cudaSuccess ? error : remember(r.sticky);
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  auto made = std::make_unique<CUevent_st>();
  made->device = current_device();
  *event = made.get();
  r.events[made.get()] = std::move(made);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  use_context(r);
  if (r.events.erase(event) == 0) misuse("cudaEventDestroy of an event that does not exist");
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr || !r.events.contains(event) || event->device != target->device) {
    return remember(cudaErrorInvalidResourceHandle);
  }
  event->latest = std::make_shared<Completion>();
  enqueue_locked(r, *target, {{}, {}, event->latest});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_unsafe(r); error != cudaSuccess) return error;
  if (!r.events.contains(event)) return remember(cudaErrorInvalidResourceHandle);
  return !event->latest || event->latest->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  const cudaError_t error = enter_unsafe(r);
  if (!r.events.contains(event)) return remember(cudaErrorInvalidResourceHandle);
  if (const auto latest = event->latest) {
    host_wait(r, lock, [&] { return latest->done; });
  }
  return error;
}

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    default:
      return "an error of the fake";
  }
}

const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "words of the fake"; }

cudaError_t CUDARTAPI cudaGetLastError(void) { return std::exchange(last_error, cudaSuccess); }

}  // extern "C"
