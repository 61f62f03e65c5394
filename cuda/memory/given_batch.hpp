// SPDX-License-Identifier: Apache-2.0
// Batches in memory that the consumer supplies.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "cuda/runtime/check.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Whether `given` is memory of `place.device` that can hold the described tensors, as far as CUDA can tell.
/// With the device current. Throws OptionError; CudaError.
void check_given(const CallPlace& place, const DeviceOutput& given, const DeviceTensor& data,
                 const DeviceTensor* target);

/// The batch of `place`, made by work that was enqueued on the stream of `given`, which outlives it.
std::shared_ptr<DeviceBatch> make_given_batch(const CallPlace& place, const DeviceOutput& given,
                                              DeviceTensor data, DeviceTensor target);

}  // namespace h5feed::gpu
