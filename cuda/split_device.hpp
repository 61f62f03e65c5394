// A Device that divides each batch among several NVIDIA GPUs of one process.
#pragma once

#include <memory>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Creates a Device that assembles batches in one pinned memory, on the NUMA node of the first GPU, and
/// delivers part i of k, samples ⌊n·i/k⌋ to ⌊n·(i+1)/k⌋ − 1, to `devices[i]`, each through a
/// `make_cuda_device`; see `Batch::parts`. `settings` describe the whole batch; `settings.device` is ignored.
/// Throws OptionError, DeviceError, std::bad_alloc.
std::unique_ptr<Device> make_split_device(const std::vector<int>& devices,
                                          const CudaDeviceSettings& settings);

}  // namespace h5feed::gpu
