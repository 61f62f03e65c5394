// SPDX-License-Identifier: Apache-2.0
// A Device that delivers batches in pinned host memory, which the program copies to a GPU itself.
#pragma once

#include <cstddef>
#include <memory>

#include "batch/device.hpp"
#include "cuda/memory/pinned_arena.hpp"
#include "h5feed/gpu.hpp"

namespace h5feed::gpu {

/// Settings of a host device with pinned memory.
struct PinnedHostSettings {
  /// CUDA ordinal of the device whose NUMA node holds the memory.
  int device = 0;
  SlotBytes bytes;          ///< Bytes of a full batch
  std::size_t buffers = 3;  ///< Batches in preparation or at the consumer, for which memory is pinned at once
  /// Allocates the two tensors of each batch. Empty: the device pins `buffers` batches of its own and
  /// recycles them.
  PinnedAllocator allocate = {};
  /// Best kind of pinning to try; see PinnedArena.
  Pinning best_pinning = Pinning::registered;
};

/// Creates a device that delivers as that of `make_host_device` does, in pinned memory. If the driver refuses
/// to pin, if the consumer keeps more than `buffers` batches, or if `allocate` throws, batches are in
/// pageable memory instead, which one warning reports. Throws DeviceError, std::bad_alloc.
std::unique_ptr<Device> make_pinned_host(PinnedHostSettings settings);

}  // namespace h5feed::gpu
