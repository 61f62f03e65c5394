// SPDX-License-Identifier: Apache-2.0
// The tensors of a batch as a GPU delivers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/device_backend.hpp"
#include "batch/strides.hpp"
#include "cuda/memory/slot_layout.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Returns names, types, shapes and strides of the delivered tensors of a batch, without addresses. Throws
/// std::bad_alloc.
inline DeviceTensors describe(const Batch& batch, const DeviceFormat& format, const SlotLayout& layout) {
  const auto tensor = [](DType dtype, const std::vector<std::int64_t>& shape, bool channels_last) {
    return DeviceTensor{nullptr, dtype, shape, dense_strides(shape, channels_last)};
  };
  DeviceTensors tensors{.data = tensor(format.to, batch.data.shape, format.out_channels_last)};
  if (format.slot.target > 0) tensors.target = tensor(format.target_to, batch.target.shape, false);
  for (const SlotLayout::FieldPlace& place : layout.fields) {
    const BatchField& field = batch.fields[place.number];
    tensors.fields.push_back({field.name, tensor(field.values.dtype, field.values.shape, false)});
  }
  return tensors;
}

/// Returns the tensors at their places in `memory`, which has as many fields.
inline DeviceTensors placed_in(const DeviceOutput& memory, DeviceTensors tensors) noexcept {
  tensors.data.data = memory.data;
  if (tensors.target) tensors.target->data = memory.target;
  for (std::size_t i = 0; i < tensors.fields.size(); ++i) tensors.fields[i].values.data = memory.fields[i];
  return tensors;
}

}  // namespace h5feed::gpu
