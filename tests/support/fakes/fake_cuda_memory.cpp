// SPDX-License-Identifier: Apache-2.0
// Functions of the fake runtime for devices, memory and copies.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/fakes/fake_cuda_runtime.hpp"

using namespace h5feed::test::fake;  // NOLINT: the functions below have the runtime's names

namespace {

// Returns the allocation that holds [begin, begin + bytes); null if there is none.
const Memory* memory_at(const std::map<char*, Memory>& map, const void* begin, std::size_t bytes) {
  auto* const at = static_cast<char*>(const_cast<void*>(begin));
  auto found = map.upper_bound(at);
  if (found == map.begin()) return nullptr;
  --found;
  return at + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  *count = 0;
  if (r.settings.device_count_error != cudaSuccess) return remember(r.settings.device_count_error);
  if (const cudaError_t error = enter_without_context(r); error != cudaSuccess) return error;
  *count = r.settings.devices;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_without_context(r); error != cudaSuccess) return error;
  *device = current_device();
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_without_context(r); error != cudaSuccess) return error;
  if (device < 0 || device >= r.settings.devices) return remember(cudaErrorInvalidDevice);
  (pushed_devices.empty() ? chosen_device : pushed_devices.back()) = device;
  use_context(r);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  const Lock lock(rt().mutex);
  *version = rt().settings.driver_version;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_without_context(r); error != cudaSuccess) return error;
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 0x19);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_without_context(r); error != cudaSuccess) return error;
  *value = 0;
  if (attribute == cudaDevAttrMultiProcessorCount) *value = 4;
  if (attribute == cudaDevAttrL2CacheSize) *value = r.settings.l2_cache_bytes;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free, size_t* total) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *total = r.settings.memory_bytes;
  *free = r.settings.memory_bytes;
  for (const auto& [data, memory] : r.device_memory) {
    if (memory.device == current_device()) *free -= memory.bytes;
  }
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMalloc(void** data, size_t bytes) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_unsafe(r); error != cudaSuccess) return error;
  std::size_t used = 0;
  for (const auto& [begin, memory] : r.device_memory)
    used += memory.device == current_device() ? memory.bytes : 0;
  if (used + bytes > r.settings.memory_bytes) return remember(cudaErrorMemoryAllocation);
  // Exactly as many bytes as asked for, so that AddressSanitizer sees accesses behind them.
  if (posix_memalign(data, 256, bytes) != 0) return remember(cudaErrorMemoryAllocation);
  // Fresh device memory has arbitrary content.
  std::memset(*data, 0xCD, bytes);
  r.device_memory[static_cast<char*>(*data)] = {bytes, current_device()};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFree(void* data) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  use_context(r);
  if (data == nullptr) return cudaSuccess;
  if (refused_by_capture(r) != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const auto found = r.device_memory.find(static_cast<char*>(data));
  if (found == r.device_memory.end()) misuse("cudaFree of memory that is not allocated");
  const int device = found->second.device;
  host_wait(r, lock, [&] {
    return std::ranges::all_of(all_streams(r),
                               [&](CUstream_st* s) { return s->device != device || idle(*s); });
  });
  r.device_memory.erase(static_cast<char*>(data));
  std::free(data);
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaHostAlloc(void** data, size_t bytes, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_unsafe(r); error != cudaSuccess) return error;
  if (r.settings.refuse_host_alloc) return remember(cudaErrorMemoryAllocation);
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  *data = std::aligned_alloc(4096, rounded);
  r.pinned[static_cast<char*>(*data)] = {bytes, 0};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFreeHost(void* data) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  use_context(r);
  if (r.pinned.erase(static_cast<char*>(data)) == 0) misuse("cudaFreeHost of memory that is not allocated");
  std::free(data);
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaHostRegister(void* data, size_t bytes, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter_unsafe(r); error != cudaSuccess) return error;
  if (r.settings.refuse_register) return remember(cudaErrorMemoryAllocation);
  r.registered[static_cast<char*>(data)] = {bytes, 0};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostUnregister(void* data) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  use_context(r);
  if (r.registered.erase(static_cast<char*>(data)) == 0) misuse("cudaHostUnregister of other memory");
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  if (const Memory* const memory = memory_at(r.device_memory, data, 1)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = memory->device;
  } else if (memory_at(r.pinned, data, 1) != nullptr || memory_at(r.registered, data, 1) != nullptr) {
    attributes->type = cudaMemoryTypeHost;
  }
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  const auto copy = [=] { std::memcpy(to, from, bytes); };
  if (kind == cudaMemcpyDeviceToHost) {
    if (memory_at(r.device_memory, from, bytes) == nullptr) return remember(cudaErrorInvalidValue);
    enqueue_locked(r, *target, {copy, {}, {}});
    return cudaSuccess;
  }
  if (memory_at(r.device_memory, to, bytes) == nullptr) return remember(cudaErrorInvalidValue);
  if (kind == cudaMemcpyDeviceToDevice) {
    if (memory_at(r.device_memory, from, bytes) == nullptr) return remember(cudaErrorInvalidValue);
    enqueue_locked(r, *target, {copy, {}, {}});
    return cudaSuccess;
  }
  if (kind != cudaMemcpyHostToDevice) return remember(cudaErrorInvalidMemcpyDirection);
  if (memory_at(r.pinned, from, bytes) != nullptr || memory_at(r.registered, from, bytes) != nullptr) {
    ++r.pinned_copies;
    r.pinned_copy_bytes += bytes;
    enqueue_locked(r, *target,
                   {[copy, before = r.settings.before_copy] {
                      if (before) before();
                      copy();
                    },
                    {},
                    {}});
    return cudaSuccess;
  }
  // The runtime first waits for the stream, then copies from pageable memory before it returns.
  ++r.pageable_copies;
  if (!idle(*target)) host_wait(r, lock, [&] { return idle(*target); });
  const auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from),
                                                          static_cast<const char*>(from) + bytes);
  enqueue_locked(r, *target, {[=] { std::memcpy(to, staged->data(), bytes); }, {}, {}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                        size_t width, size_t height, cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (kind != cudaMemcpyDeviceToDevice) return remember(cudaErrorInvalidMemcpyDirection);
  if (width > to_pitch || width > from_pitch) return remember(cudaErrorInvalidPitchValue);
  const std::size_t last = height > 0 ? height - 1 : 0;
  if (memory_at(r.device_memory, to, last * to_pitch + width) == nullptr ||
      memory_at(r.device_memory, from, last * from_pitch + width) == nullptr)
    return remember(cudaErrorInvalidValue);
  enqueue_locked(r, *target,
                 {[=] {
                    for (std::size_t row = 0; row < height; ++row)
                      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                                  static_cast<const char*>(from) + row * from_pitch, width);
                  },
                  {},
                  {}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (memory_at(r.device_memory, data, bytes) == nullptr) return remember(cudaErrorInvalidValue);
  enqueue_locked(r, *target, {[=] { std::memset(data, value, bytes); }, {}, {}});
  return cudaSuccess;
}

}  // extern "C"
