// SPDX-License-Identifier: Apache-2.0
// RAII owners of CUDA objects. Each is created on an explicit device. None is in static storage, so that
// nothing calls CUDA before main() or while the process exits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/contexts.hpp"

namespace h5feed::gpu {

/// Makes a device current on this thread for its own lifetime and then restores the previous one, without
/// creating a context on any other device. Meanwhile calls of this thread may run while another thread
/// captures a CUDA graph, and do not affect that capture; in the default mode, a capture forbids the whole
/// process to query an event, and a query invalidates the capture (CUDA Runtime API,
/// cudaThreadExchangeStreamCaptureMode). Guards of one thread must be nested.
class DeviceGuard {
 public:
  /// Creates the context of the device if there is none. Throws CudaError.
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
  // Mode to switch to; while the guard exists, the previous mode.
  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
};

/// A DeviceGuard for destructors: ignores errors, because the objects of a failed device must be released,
/// too.
class QuietDeviceGuard : public DeviceGuard {
 public:
  explicit QuietDeviceGuard(int device) noexcept { ignore_error(enter(device)); }
};

/// Owns a handle of a device and destroys it with `Destroy`, on any thread; errors are ignored. Move-only;
/// null after a move.
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

/// A stream that does not synchronize with the legacy default stream. Destroying it does not wait for its
/// work.
using Stream = Owned<cudaStream_t, &cudaStreamDestroy>;
/// An event without timing, for ordering only.
using Event = Owned<cudaEvent_t, &cudaEventDestroy>;
/// Device memory. Freeing it waits for the device.
using DeviceMemory = Owned<void*, &cudaFree>;

/// Creates a stream on the current device, which must be `device`. Throws CudaError.
inline Stream make_stream(int device) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", {device});
  return {stream, device};
}

/// Creates an event on the current device, which must be `place.device`. Throws CudaError.
inline Event make_event(const CallPlace& place) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", place);
  return {event, place.device};
}
/// Creates an event on the current device, which must be `device`. Throws CudaError.
inline Event make_event(int device) { return make_event(CallPlace{device}); }

/// Allocates memory on the current device, which must be `place.device`. Throws CudaError; the message names
/// the bytes.
inline DeviceMemory make_device_memory(std::size_t bytes, const CallPlace& place) {
  void* memory = nullptr;
  check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes, place);
  return {memory, place.device};
}
/// Allocates memory on the current device, which must be `device`. Throws CudaError; the message names the
/// bytes.
inline DeviceMemory make_device_memory(std::size_t bytes, int device) {
  return make_device_memory(bytes, CallPlace{device});
}

}  // namespace h5feed::gpu
