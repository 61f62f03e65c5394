// Owners of CUDA objects. Each is created on an explicit device; none lives in static storage, so that
// nothing calls CUDA before main() or while the process exits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "cuda/check.hpp"

namespace h5feed::gpu {

/// Makes a device current on this thread, and the previous one again at the end.
class DeviceGuard {
 public:
  /// Throws CudaError.
  explicit DeviceGuard(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice", {device});
    if (previous_ == device) return;
    check(cudaSetDevice(device), "cudaSetDevice", {device});
    changed_ = true;
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() {
    if (changed_) ignore_error(cudaSetDevice(previous_));
  }

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// A handle that is destroyed by `Destroy`. Move-only; null after a move.
template <typename Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) noexcept : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Owned() { reset(); }

  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  void reset() noexcept {
    if (handle_ != nullptr) ignore_error(Destroy(std::exchange(handle_, nullptr)));
  }
  Handle handle_ = nullptr;
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
  return Stream(stream);
}

inline Event make_event(int device) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", {device});
  return Event(event);
}

inline DeviceMemory make_device_memory(std::size_t bytes, int device) {
  void* memory = nullptr;
  check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes, {device});
  return DeviceMemory(memory);
}

}  // namespace h5feed::gpu
