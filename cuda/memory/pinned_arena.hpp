// SPDX-License-Identifier: Apache-2.0
// One stretch of host memory that a GPU can copy from without staging.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h5feed::gpu {

/// How memory came to be pinned, best first.
enum class Pinning : std::uint8_t {
  registered,  ///< huge pages, touched by several threads, then cudaHostRegister
  allocated,   ///< cudaHostAlloc, which holds locks of the driver for about 0.5 s a GiB
  pageable     ///< not pinned: the driver refused both
};

/// Pinned memory, allocated by the constructor and given back by the destructor, which does not wait for
/// copies: the owner does.
class PinnedArena {
 public:
  /// On the NUMA node of `device`, which is current. `touch_threads` fault the pages in at once. Where
  /// the driver pins nothing (RLIMIT_MEMLOCK, a container's limit), the memory is pageable and a warning
  /// says what that costs. Ways before `best` are not tried. Throws std::bad_alloc; CudaError where the
  /// driver fails for another reason than the pinning.
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
  void* mapping_ = nullptr;  // holds `data_`; null where that came from the driver
  std::size_t mapped_bytes_ = 0;
  Pinning pinning_ = Pinning::pageable;
};

}  // namespace h5feed::gpu
