// SPDX-License-Identifier: Apache-2.0
// Contexts and captures: functions of the fake runtime, and of the driver below it.
#include <cuda.h>

#include <array>
#include <map>
#include <string>
#include <utility>

#include "support/fakes/fake_cuda_runtime.hpp"

using namespace h5feed::test::fake;  // NOLINT: the functions below have the runtime's names

namespace {

// The primary context of a device is the same for every FakeCuda, since the program keeps its handle.
std::array<char, 16> places;

CUcontext context_of(CUdevice device) {
  return reinterpret_cast<CUcontext>(&places[static_cast<std::size_t>(device)]);
}

CUresult init(unsigned) { return CUDA_SUCCESS; }

CUresult device_get(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= rt().settings.devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult retain(CUcontext* context, CUdevice device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (r.settings.busy_devices.contains(device)) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (++r.retained[device] == 1 && r.contexts.insert(device).second) r.made_by_retain.insert(device);
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult release(CUdevice device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (--r.retained[device] == 0 && r.made_by_retain.erase(device) > 0) r.contexts.erase(device);
  return CUDA_SUCCESS;
}

CUresult state(CUdevice device, unsigned* flags, int* active) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  *flags = 0;
  *active = r.contexts.contains(device) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult push(CUcontext context) {
  const auto device = static_cast<int>(reinterpret_cast<char*>(context) - places.data());
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (device >= r.settings.devices) return CUDA_ERROR_INVALID_CONTEXT;
  if (r.settings.busy_devices.contains(device)) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  pushed_devices.push_back(device);
  r.contexts.insert(device);
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* context) {
  if (pushed_devices.empty()) misuse("cuCtxPopCurrent without a context");
  *context = context_of(pushed_devices.back());
  pushed_devices.pop_back();
  return CUDA_SUCCESS;
}

CUresult memory(std::size_t* free, std::size_t* total) {
  return static_cast<CUresult>(cudaMemGetInfo(free, total));
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                                       unsigned long long,
                                                       cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string, void*> functions = {
      {"cuInit", reinterpret_cast<void*>(&init)},
      {"cuDeviceGet", reinterpret_cast<void*>(&device_get)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&retain)},
      {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(&release)},
      {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(&state)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(&push)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(&pop)},
      {"cuMemGetInfo", reinterpret_cast<void*>(&memory)}};
  const auto found = functions.find(symbol);
  *function = found == functions.end() ? nullptr : found->second;
  *result = found == functions.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                              cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, result);
}

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  stream->capturing = true;
  stream->capture_broken = false;
  stream->capture_mode = mode;
  stream->captured_by = std::this_thread::get_id();
  return cudaSuccess;
}

// There is no graph: captured work is discarded.
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *graph = nullptr;
  stream->capturing = false;
  return stream->capture_broken ? remember(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const of = stream_of(r, stream);
  if (of == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *id = reinterpret_cast<std::uintptr_t>(of);  // no handle is given out twice
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  const CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *status = !target->capturing       ? cudaStreamCaptureStatusNone
            : target->capture_broken ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

}  // extern "C"
