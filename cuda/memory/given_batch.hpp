// SPDX-License-Identifier: Apache-2.0
// Batches in memory that the consumer provides.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "cuda/runtime/check.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Checks that `given` is aligned memory of `place.device`, or managed memory, as far as CUDA can tell; does
/// not check its size. `given` has as many fields as `tensors`. Requires the device to be current. Throws
/// OptionError if it is not, CudaError.
void check_given(const CallPlace& place, const DeviceOutput& given, const DeviceTensors& tensors);

/// Returns the batch of `place`, which was produced by work enqueued on `given.stream`. The stream must
/// outlive the batch. Keeps `given.owner`.
std::shared_ptr<DeviceBatch> make_given_batch(const CallPlace& place, const DeviceOutput& given,
                                              DeviceTensors tensors);

}  // namespace h5feed::gpu
