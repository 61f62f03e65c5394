// SPDX-License-Identifier: Apache-2.0
// A block of pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h5feed::gpu {

/// How host memory is pinned, best first.
enum class Pinning : std::uint8_t {
  registered,  ///< Huge pages, faulted in by several threads, then pinned with cudaHostRegister
  allocated,   ///< cudaHostAlloc, which holds locks of the driver for about 0.5 s per GiB
  pageable     ///< Not pinned: the driver refused both
};

/// Owns pinned host memory. The destructor frees it without waiting for copies; the owner has to wait.
class PinnedArena {
 public:
  /// Allocates memory on the NUMA node of `device`, which must be current, if the system allows.
  /// `touch_threads` threads fault the pages in. Does not try kinds of pinning better than `best`. If the
  /// driver refuses to pin (RLIMIT_MEMLOCK, the limit of a container), the memory is pageable and a warning
  /// is logged. Throws std::bad_alloc; CudaError if the driver fails for any other reason.
  PinnedArena(std::size_t bytes, int device, unsigned touch_threads, Pinning best = Pinning::registered);
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;
  ~PinnedArena();

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Pinning pinning() const noexcept { return pinning_; }

 private:
  bool try_register(unsigned touch_threads);
  bool try_allocate();
  void map();
  void unmap() noexcept;

  std::size_t bytes_;
  int device_;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;  // contains `data_`; null if the driver allocated it
  std::size_t mapped_bytes_ = 0;
  Pinning pinning_ = Pinning::pageable;
};

}  // namespace h5feed::gpu
