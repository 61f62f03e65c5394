// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/pinned_arena.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/byte_units.hpp"
#include "base/threads/share_out.hpp"
#include "cuda/runtime/check.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kSmallPageBytes = 4096;
constexpr int kMaxNode = 1024;

// Returns whether the error means a lack of permission or of lockable memory, as opposed to a broken driver.
bool refused(cudaError_t code) noexcept {
  return code == cudaErrorMemoryAllocation || code == cudaErrorNotSupported ||
         code == cudaErrorNotPermitted || code == cudaErrorOperatingSystem || code == cudaErrorInvalidValue ||
         code == cudaErrorHostMemoryAlreadyRegistered;
}

// Returns the NUMA node nearest to the device; negative if there is none or CUDA does not tell.
int numa_node_of(int device) noexcept {
  int node = -1;
#if CUDART_VERSION >= 12020
  const cudaError_t code = cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device);
  if (code != cudaSuccess) {
    ignore_error(code);
    return -1;
  }
#else
  static_cast<void>(device);
#endif
  return node;
}

// Asks for memory of a NUMA node. If the kernel or a container refuses, the default policy stays.
void prefer_node(void* data, std::size_t bytes, int node) noexcept {
  constexpr unsigned long kPreferred = 1;  // MPOL_PREFERRED of the kernel's uapi/linux/mempolicy.h
  constexpr int kBits = 8 * sizeof(unsigned long);
  if (node < 0 || node >= kMaxNode) return;
  std::array<unsigned long, kMaxNode / kBits> mask = {};
  mask[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  static_cast<void>(
      ::syscall(SYS_mbind, data, bytes, kPreferred, mask.data(), static_cast<unsigned long>(kMaxNode), 0UL));
}

void touch(std::byte* data, std::size_t bytes, unsigned threads) {
  const std::size_t pages = (bytes + kHugePageBytes - 1) / kHugePageBytes;
  share_out(pages, threads, [&] {
    return [&](std::uint64_t page) {
      const std::size_t end = std::min(bytes, (page + 1) * kHugePageBytes);
      for (std::size_t at = page * kHugePageBytes; at < end; at += kSmallPageBytes) data[at] = std::byte{0};
    };
  });
}

}  // namespace

PinnedArena::PinnedArena(std::size_t bytes, int device, unsigned touch_threads, Pinning best)
    : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  if (best == Pinning::registered && try_register(std::max(1U, touch_threads))) return;
  if (best != Pinning::pageable && try_allocate()) return;
  map();
  log(LogLevel::warning,
      fmt::format(
          "the driver refused to pin {} for cuda:{}: batches are copied from pageable memory, several "
          "times slower and without overlap; raise ulimit -l or the container's memory limit, or lower "
          "prefetch_factor",
          format_bytes(bytes), device));
}

PinnedArena::~PinnedArena() {
  const QuietDeviceGuard guard(device_);
  if (pinning_ == Pinning::registered) ignore_error(cudaHostUnregister(data_));
  if (pinning_ == Pinning::allocated) ignore_error(cudaFreeHost(data_));
  unmap();
}

bool PinnedArena::try_register(unsigned touch_threads) {
  map();
  ::madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);
  prefer_node(mapping_, mapped_bytes_, numa_node_of(device_));
  touch(data_, bytes_, touch_threads);
  const cudaError_t code = cudaHostRegister(data_, bytes_, cudaHostRegisterPortable);
  if (code == cudaSuccess) {
    pinning_ = Pinning::registered;
    return true;
  }
  unmap();
  // Some hypervisors answer cudaErrorUnknown although the device works; if it has failed, so does the next
  // call.
  if (!refused(code) && code != cudaErrorUnknown) check(code, "cudaHostRegister", {device_});
  ignore_error(code);
  return false;
}

bool PinnedArena::try_allocate() {
  void* memory = nullptr;
  const cudaError_t code = cudaHostAlloc(&memory, bytes_, cudaHostAllocPortable);
  if (code == cudaSuccess) {
    data_ = static_cast<std::byte*>(memory);
    pinning_ = Pinning::allocated;
    return true;
  }
  if (!refused(code)) check(code, "cudaHostAlloc", {device_});
  ignore_error(code);
  return false;
}

void PinnedArena::map() {
  // Huge pages begin at multiples of their size, which a mapping need not.
  const std::size_t alignment = bytes_ < kHugePageBytes ? kSmallPageBytes : kHugePageBytes;
  mapped_bytes_ = (bytes_ + kSmallPageBytes - 1) / kSmallPageBytes * kSmallPageBytes + alignment;
  mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (alignment - address % alignment) % alignment;
}

void PinnedArena::unmap() noexcept {
  if (mapping_ == nullptr) return;
  ::munmap(mapping_, mapped_bytes_);
  mapping_ = nullptr;
  data_ = nullptr;
}

}  // namespace h5feed::gpu
