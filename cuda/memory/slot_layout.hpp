// SPDX-License-Identifier: Apache-2.0
// How a batch lies in a slot, on the host and on the device alike, so that one copy brings all of it.
#pragma once

#include <cstddef>

#include "batch/device_backend.hpp"
#include "cuda/memory/device_memory.hpp"
#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// Target, transforms of all deliveries, data, in this order: what is left over of a batch that is not full
/// is at the end, and is not copied. Offsets and sizes in bytes.
struct SlotLayout {
  std::size_t transforms_offset = 0;
  std::size_t data_offset = 0;  ///< also the size of what precedes the data; a multiple of kDeviceAlignment
  std::size_t bytes = 0;        ///< of a full batch

  static SlotLayout of(const DeviceFormat& format) noexcept {
    const auto transforms = format.augments ? static_cast<std::size_t>(format.rows * format.deliveries) : 0;
    SlotLayout layout;
    layout.transforms_offset = aligned_for_device(format.slot.target);
    layout.data_offset = aligned_for_device(layout.transforms_offset + transforms * sizeof(SampleTransform));
    layout.bytes = layout.data_offset + format.slot.data;
    return layout;
  }
};

}  // namespace h5feed::gpu
