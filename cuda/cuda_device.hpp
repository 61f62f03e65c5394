// SPDX-License-Identifier: Apache-2.0
// A Device that delivers batches to one NVIDIA GPU.
#pragma once

#include <memory>

#include "batch/device.hpp"
#include "batch/device_backend.hpp"
#include "cuda/memory/pinned_arena.hpp"

namespace h5feed::gpu {

#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif

/// Settings of a CUDA device.
struct CudaDeviceSettings {
  /// CUDA ordinal.
  int device = 0;
  DeviceFormat format;
  DeviceCapacity capacity;
  /// Threads that fault in the pinned memory; see PinnedArena.
  unsigned touch_threads = 4;
  /// Best kind of pinning to try; see PinnedArena.
  Pinning best_pinning = Pinning::registered;
  /// Overwrite released slots on host and device, so that a late reader is noticed.
  bool poison = kDebugBuild;
  bool check_sources = kDebugBuild;  ///< See `PinnedPool::Settings::check_sources`
};

/// Creates a Device that delivers to one GPU. Batches are assembled in pinned memory. One asynchronous copy
/// on the device's copy stream transfers target, fields, transforms and data of a batch
/// (cuda/memory/slot_layout.hpp); a second stream converts, so that the copy of one batch overlaps with the
/// kernel of the previous one. A batch that is delivered to memory of the consumer is converted on the
/// consumer's stream. Streams wait for each other by events. The host waits for none of them, except for a
/// free pinned slot if all are being copied.
///
/// The copy of a batch is enqueued when the batch is assembled and at most `depth` batches before its turn,
/// by the worker that assembled it, or by the consumer's thread when it takes an earlier batch. There is no
/// thread to stop and no queue to drain. With several deliveries the copied batch stays on the device until
/// the next batch is delivered.
///
/// Errors: a failed call fails the batch that it was made for. After an error that destroys the context of
/// the device, every further call throws DeviceError with the first message. Throws OptionError, DeviceError,
/// std::bad_alloc.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings& settings);

}  // namespace h5feed::gpu
