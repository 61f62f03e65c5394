// Delivery to several NVIDIA GPUs of one process.
#pragma once

#include <memory>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// A Device that assembles batches in one pinned memory, on the NUMA node of the first GPU, and delivers part
/// i of k, the samples from ⌊n·i/k⌋ to ⌊n·(i+1)/k⌋, to `devices[i]` as `make_cuda_device` does:
/// `Batch::parts`. `settings` are those of the whole batch. Throws as that.
std::unique_ptr<Device> make_split_device(const std::vector<int>& devices,
                                          const CudaDeviceSettings& settings);

}  // namespace h5feed::gpu
