// SPDX-License-Identifier: Apache-2.0
// Layout of a batch in a slot. Host and device use the same layout, so that a single copy transfers
// everything.
#pragma once

#include <cstddef>
#include <vector>

#include "batch/device_backend.hpp"
#include "cuda/memory/device_memory.hpp"
#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// Order in a slot: target, named fields, transforms of all deliveries, addresses of the samples, data. The
/// unused part of an incomplete batch's data is at the end and is not copied. Offsets and sizes in bytes.
struct SlotLayout {
  /// One of `Batch::fields` that is part of the slot.
  struct FieldPlace {
    std::size_t number = 0;  ///< Index in `Batch::fields`
    std::size_t offset = 0;
  };
  /// Places of the fields, in the order of `Batch::fields`; the target begins at 0.
  std::vector<FieldPlace> fields = {};
  std::size_t transforms_offset = 0;  ///< Offset of the transforms
  std::size_t rows_offset = 0;        ///< Offset of the addresses of the samples, if the format has them
  std::size_t data_offset = 0;        ///< Offset of the data; a multiple of kDeviceAlignment
  /// Bytes of a slot for a full batch; a multiple of kDeviceAlignment, because the kernels read the 4-byte
  /// words that contain the last elements in full.
  std::size_t bytes = 0;

  /// Returns the layout for a format. Throws std::bad_alloc.
  static SlotLayout of(const DeviceFormat& format) {
    const auto transforms = format.augments ? static_cast<std::size_t>(format.rows * format.deliveries) : 0;
    SlotLayout layout;
    layout.transforms_offset = aligned_for_device(format.slot.target);
    for (std::size_t number = 0; number < format.slot.fields.size(); ++number) {
      if (format.slot.fields[number] == 0) continue;
      layout.fields.push_back({.number = number, .offset = layout.transforms_offset});
      layout.transforms_offset += aligned_for_device(format.slot.fields[number]);
    }
    layout.rows_offset = aligned_for_device(layout.transforms_offset + transforms * sizeof(SampleTransform));
    const auto rows = format.gathers ? static_cast<std::size_t>(format.rows) : 0;
    layout.data_offset = aligned_for_device(layout.rows_offset + rows * sizeof(const std::byte*));
    layout.bytes = aligned_for_device(layout.data_offset + format.slot.data);
    return layout;
  }
};

}  // namespace h5feed::gpu
