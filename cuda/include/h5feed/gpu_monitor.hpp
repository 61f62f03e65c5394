// SPDX-License-Identifier: Apache-2.0
// Monitoring of an NVIDIA GPU while it is fed. Link h5feed::nvml, which needs no CUDA: the driver's library
// is loaded at run time.
//
//   options.gpu_probe = h5feed::gpu::monitor();
//   h5feed::DataLoader loader(data, options);
//   …
//   std::cout << loader.report();  // "the GPU was busy 41 %; of the other 59 points, 55 waited …"
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "h5feed/gpu_probe.hpp"

namespace h5feed::gpu {

/// Starts monitoring a GPU: reads it immediately and then every `interval`, at least 100 ms, on a thread of
/// its own until the last owner is destroyed. `GpuUse` lists the values; SM, tensor and memory activity need
/// Hopper or later (NVML's GPM). `pci_id`: PCI address as cudaDeviceGetPCIBusId and nvidia-smi write it
/// ("0000:19:00.0"); empty: the only GPU of the machine. The library is libnvidia-ml.so.1, or the one that
/// the environment variable H5FEED_NVML names. Throws DeviceError if there is no driver, no such GPU, or
/// `pci_id` is empty and the machine does not have exactly one GPU.
std::shared_ptr<const GpuProbe> monitor(std::string_view pci_id = {},
                                        std::chrono::milliseconds interval = std::chrono::milliseconds(200));

}  // namespace h5feed::gpu
