// SPDX-License-Identifier: Apache-2.0
// Layout of a batch in a slot. Host and device use the same layout, so that a single copy transfers
// everything.
#pragma once

#include <cstddef>

#include "batch/device_backend.hpp"
#include "cuda/memory/device_memory.hpp"
#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// Order in a slot: target, transforms of all deliveries, addresses of the samples, data. The unused part of
/// an incomplete batch is at the end and is not copied. Offsets and sizes in bytes.
struct SlotLayout {
  /// Offset of the transforms; the target begins at 0.
  std::size_t transforms_offset = 0;
  std::size_t rows_offset = 0;  ///< Offset of the addresses of the samples, if the format has them
  std::size_t data_offset = 0;  ///< Offset of the data; a multiple of kDeviceAlignment
  /// Bytes of a slot for a full batch; a multiple of kDeviceAlignment, because the kernels read the 4-byte
  /// words that contain the last elements in full.
  std::size_t bytes = 0;

  /// Returns the layout for a format.
  static SlotLayout of(const DeviceFormat& format) noexcept {
    const auto transforms = format.augments ? static_cast<std::size_t>(format.rows * format.deliveries) : 0;
    SlotLayout layout;
    layout.transforms_offset = aligned_for_device(format.slot.target);
    layout.rows_offset = aligned_for_device(layout.transforms_offset + transforms * sizeof(SampleTransform));
    const auto rows = format.gathers ? static_cast<std::size_t>(format.rows) : 0;
    layout.data_offset = aligned_for_device(layout.rows_offset + rows * sizeof(const std::byte*));
    layout.bytes = aligned_for_device(layout.data_offset + format.slot.data);
    return layout;
  }
};

}  // namespace h5feed::gpu
