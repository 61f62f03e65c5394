// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/contexts.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <array>
#include <atomic>

#include "cuda/runtime/check.hpp"

namespace h5feed::gpu {
namespace {

// The CUDA version whose function signatures are requested; newer ones are not used.
constexpr unsigned kDriverVersion = 12000;
constexpr std::size_t kMaxDevices = 128;

cudaError_t as_runtime_error(CUresult code) noexcept { return static_cast<cudaError_t>(code); }

// Finds a driver function at run time. The driver library is not linked, because the machine may have none.
cudaError_t find(const char* name, void** function) noexcept {
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, function, kDriverVersion, cudaEnableDefault, &result);
#else
  const cudaError_t code = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &result);
#endif
  if (code != cudaSuccess) return code;
  return result == cudaDriverEntryPointSuccess ? cudaSuccess : cudaErrorInsufficientDriver;
}

template <typename Function>
cudaError_t find(const char* name, Function& function) noexcept {
  void* address = nullptr;
  const cudaError_t code = find(name, &address);
  function = reinterpret_cast<Function>(address);
  return code;
}

struct Driver {
  PFN_cuInit_v2000 init = nullptr;
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain = nullptr;
  PFN_cuDevicePrimaryCtxRelease_v11000 release = nullptr;
  PFN_cuDevicePrimaryCtxGetState_v7000 state = nullptr;
  PFN_cuCtxPushCurrent_v4000 push = nullptr;
  PFN_cuCtxPopCurrent_v4000 pop = nullptr;
  PFN_cuMemGetInfo_v3020 memory = nullptr;
  cudaError_t error = cudaSuccess;  // set if a function was not found or cuInit failed

  Driver() noexcept {
    const auto need = [&](const char* name, auto& function) {
      if (error == cudaSuccess) error = find(name, function);
    };
    need("cuInit", init);
    need("cuDeviceGet", device_get);
    need("cuDevicePrimaryCtxRetain", retain);
    need("cuDevicePrimaryCtxRelease", release);
    need("cuDevicePrimaryCtxGetState", state);
    need("cuCtxPushCurrent", push);
    need("cuCtxPopCurrent", pop);
    need("cuMemGetInfo", memory);
    if (error == cudaSuccess) error = as_runtime_error(init(0));
  }
};

const Driver& driver() noexcept {
  static const Driver found;
  return found;
}

cudaError_t retain(int device, CUcontext& context) noexcept {
  const Driver& d = driver();
  if (d.error != cudaSuccess) return d.error;
  CUdevice handle = 0;
  const CUresult code = d.device_get(&handle, device);
  return as_runtime_error(code != CUDA_SUCCESS ? code : d.retain(&context, handle));
}

void release(int device) noexcept {
  CUdevice handle = 0;
  if (driver().device_get(&handle, device) == CUDA_SUCCESS) static_cast<void>(driver().release(handle));
}

// Primary contexts that were retained once. They are never released, so that nothing calls CUDA while the
// process exits.
std::array<std::atomic<CUcontext>, kMaxDevices> kept_contexts;

cudaError_t kept_context(int device, CUcontext& context) noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= kMaxDevices) return cudaErrorInvalidDevice;
  std::atomic<CUcontext>& kept = kept_contexts[static_cast<std::size_t>(device)];
  context = kept.load(std::memory_order_acquire);
  if (context != nullptr) return cudaSuccess;
  if (const cudaError_t code = retain(device, context); code != cudaSuccess) return code;
  if (kept.exchange(context, std::memory_order_acq_rel) != nullptr) release(device);
  return cudaSuccess;
}

}  // namespace

cudaError_t push_context(int device) noexcept {
  CUcontext context = nullptr;
  const cudaError_t code = kept_context(device, context);
  return code != cudaSuccess ? code : as_runtime_error(driver().push(context));
}

void pop_context() noexcept {
  CUcontext popped = nullptr;
  static_cast<void>(driver().pop(&popped));
}

bool has_context(int device) noexcept {
  const Driver& d = driver();
  CUdevice handle = 0;
  unsigned flags = 0;
  int active = 0;
  return d.error == cudaSuccess && d.device_get(&handle, device) == CUDA_SUCCESS &&
         d.state(handle, &flags, &active) == CUDA_SUCCESS && active != 0;
}

cudaError_t free_memory(int device, std::size_t& bytes) noexcept {
  CUcontext context = nullptr;
  if (const cudaError_t code = retain(device, context); code != cudaSuccess) return code;
  const Driver& d = driver();
  CUresult code = d.push(context);
  if (code == CUDA_SUCCESS) {
    std::size_t total = 0;
    code = d.memory(&bytes, &total);
    pop_context();
  }
  release(device);
  return as_runtime_error(code);
}

}  // namespace h5feed::gpu
