// SPDX-License-Identifier: Apache-2.0
// Checks memory that a consumer supplies for a batch.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/device.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

/// Throws OptionError unless `given` has an address, the dtype and strides of `batch`, and its shape; only
/// the first dimension may be larger. `name` names the tensor in the error.
inline void check_room(std::string_view name, const DeviceTensor& given, const DeviceTensor& batch) {
  const bool fits = given.defined() && given.dtype == batch.dtype && given.strides == batch.strides &&
                    given.shape.size() == batch.shape.size() &&
                    std::equal(given.shape.begin(), given.shape.end(), batch.shape.begin(),
                               [first = true](std::int64_t room, std::int64_t extent) mutable {
                                 return std::exchange(first, false) ? room >= extent : room == extent;
                               });
  if (fits) return;
  throw OptionError(fmt::format("next_into: {} is {} ({}) with strides ({}); the batch is {} ({}) with ({})",
                                name, given.defined() ? name_of(given.dtype) : "without address",
                                fmt::join(given.shape, ","), fmt::join(given.strides, ","),
                                name_of(batch.dtype), fmt::join(batch.shape, ","),
                                fmt::join(batch.strides, ",")));
}

/// Returns the tensor of the name of `batch` among `given`. Throws OptionError unless it fits, as above; if
/// there is none, it has no address.
inline const DeviceTensor& find_room(const std::vector<DeviceField>& given, const DeviceField& batch) {
  static const DeviceTensor none;
  const auto found = std::ranges::find(given, batch.name, &DeviceField::name);
  const DeviceTensor& tensor = found == given.end() ? none : found->values;
  check_room(fmt::format("field \"{}\"", batch.name), tensor, batch.values);
  return tensor;
}

/// Throws OptionError if `given` has a tensor for a field that is not among `batch`, those on the GPU.
inline void refuse_other_fields(const std::vector<DeviceField>& given,
                                const std::vector<DeviceField>& batch) {
  for (const DeviceField& field : given) {
    if (std::ranges::find(batch, field.name, &DeviceField::name) != batch.end()) continue;
    throw OptionError(fmt::format(
        "next_into: no field \"{}\" is delivered to the GPU; leave it out: fields need collate = stack",
        field.name));
  }
}

}  // namespace h5feed
