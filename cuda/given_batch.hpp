// Batches in memory that the consumer supplies.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Whether `given` is memory of `device` that can hold the described tensors, as far as CUDA can tell. With
/// the device current. Throws OptionError; CudaError.
void check_given(int device, const DeviceOutput& given, const DeviceTensor& data, const DeviceTensor* target);

/// A batch that is made by work that was enqueued on the stream of `given`, which outlives it.
std::shared_ptr<DeviceBatch> make_given_batch(int device, const DeviceOutput& given, DeviceTensor data,
                                              DeviceTensor target);

}  // namespace h5feed::gpu
