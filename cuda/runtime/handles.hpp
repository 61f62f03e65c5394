// SPDX-License-Identifier: Apache-2.0
// Owners of CUDA objects. Each is created on an explicit device; none lives in static storage, so that
// nothing calls CUDA before main() or while the process exits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/contexts.hpp"

namespace h5feed::gpu {

/// Makes a device current on this thread, and what was current before again at the end, without a context on
/// any other device. In between, calls of this thread are allowed to run while another thread captures a CUDA
/// graph, whose capture they leave alone: without that a capture in the default mode forbids the whole
/// process to query an event, and one that does so ends the capture (CUDA Runtime API,
/// cudaThreadExchangeStreamCaptureMode). Guards of one thread end in the reverse order of their beginning.
class DeviceGuard {
 public:
  /// Throws CudaError.
  explicit DeviceGuard(int device) { check(enter(device), "cuDevicePrimaryCtxRetain", {device}); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() { leave(); }

 protected:
  DeviceGuard() noexcept = default;

  cudaError_t enter(int device) noexcept {
    const cudaError_t code = push_context(device);
    entered_ = code == cudaSuccess;
    if (entered_) ignore_error(cudaThreadExchangeStreamCaptureMode(&capture_mode_));
    return code;
  }

 private:
  void leave() noexcept {
    if (!entered_) return;
    ignore_error(cudaThreadExchangeStreamCaptureMode(&capture_mode_));
    pop_context();
  }

  bool entered_ = false;
  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;  // inside; then what was before
};

/// The same for destructors: a device that has failed is no reason to keep what belongs to it.
class QuietDeviceGuard : public DeviceGuard {
 public:
  explicit QuietDeviceGuard(int device) noexcept { ignore_error(enter(device)); }
};

/// A handle of a device that is destroyed by `Destroy`, on any thread. Move-only; null after a move.
template <typename Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(Handle handle, int device) noexcept : handle_(handle), device_(device) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
      device_ = other.device_;
    }
    return *this;
  }
  ~Owned() { reset(); }

  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  void reset() noexcept {
    if (handle_ == nullptr) return;
    const QuietDeviceGuard guard(device_);
    ignore_error(Destroy(std::exchange(handle_, nullptr)));
  }
  Handle handle_ = nullptr;
  int device_ = 0;
};

/// A stream that does not wait for the legacy default stream. Destroying it does not wait for its work.
using Stream = Owned<cudaStream_t, &cudaStreamDestroy>;
/// An event for order only; it takes no time stamps.
using Event = Owned<cudaEvent_t, &cudaEventDestroy>;
/// Memory of a device. Freeing it waits for the device.
using DeviceMemory = Owned<void*, &cudaFree>;

/// On the current device, which is named for messages. Throws CudaError.
inline Stream make_stream(int device) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", {device});
  return {stream, device};
}

inline Event make_event(const CallPlace& place) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", place);
  return {event, place.device};
}
inline Event make_event(int device) { return make_event(CallPlace{device}); }

inline DeviceMemory make_device_memory(std::size_t bytes, const CallPlace& place) {
  void* memory = nullptr;
  check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes, place);
  return {memory, place.device};
}
inline DeviceMemory make_device_memory(std::size_t bytes, int device) {
  return make_device_memory(bytes, CallPlace{device});
}

}  // namespace h5feed::gpu
