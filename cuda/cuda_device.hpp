// SPDX-License-Identifier: Apache-2.0
// Delivery to one NVIDIA GPU.
#pragma once

#include <memory>

#include "batch/device_backend.hpp"
#include "cuda/memory/pinned_arena.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif

struct CudaDeviceSettings {
  int device = 0;
  DeviceFormat format;
  DeviceCapacity capacity;
  unsigned touch_threads = 4;
  Pinning best_pinning = Pinning::registered;
  bool poison = kDebugBuild;         ///< slots that are let go are overwritten, on host and device
  bool check_sources = kDebugBuild;  ///< as PinnedPool
};

/// A Device that assembles batches in pinned memory, copies each with one asynchronous copy, of target,
/// transforms and data (cuda/memory/slot_layout.hpp), on a stream of its own, and converts on a second
/// stream, so that the copy of one batch and the kernel of the batch before it overlap; a batch that is
/// delivered to memory of the consumer is converted on the consumer's stream. Streams wait for each other by
/// events; the host waits for none of them, but for a free pinned slot when all are being copied.
///
/// The copy of a batch begins when it is assembled and at most `depth` batches before its turn; the worker
/// that assembled it enqueues it, or the consumer's thread on taking an earlier one. There is no thread to
/// stop, and nothing to be left in a queue. With several deliveries the copied batch stays on the device
/// until the next one is delivered.
///
/// Errors: a failed call fails the batch it was made for. After an error that ends the device's context
/// every further call throws DeviceError with the first message. Throws OptionError, DeviceError,
/// std::bad_alloc.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings& settings);

}  // namespace h5feed::gpu
