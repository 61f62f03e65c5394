// SPDX-License-Identifier: Apache-2.0
// Watching an NVIDIA GPU while it is fed. Link h5feed::nvml, which needs no CUDA: the library of the driver
// is loaded when asked for.
//
//   options.gpu_probe = h5feed::gpu::monitor();
//   h5feed::DataLoader loader(data, options);
//   …
//   std::cout << loader.report();  // "the GPU was busy 41 %; of the other 59 points, 55 waited for decoding,
//   …"
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "h5feed/gpu_probe.hpp"

namespace h5feed::gpu {

/// Reads the GPU with the PCI address `pci_id` ("0000:19:00.0", as cudaDeviceGetPCIBusId and nvidia-smi write
/// it) at once and then every `interval`, which is at least 100 ms, on a thread of its own until the last
/// owner lets go. Empty: the only GPU of the machine. What is read: `GpuUse`; SM, tensor and memory
/// activity need Hopper or later (NVML's GPM). The library is libnvidia-ml.so.1, or what the environment
/// variable H5FEED_NVML names. Throws DeviceError: no driver, no such GPU, several to choose from.
std::shared_ptr<const GpuProbe> monitor(std::string_view pci_id = {},
                                        std::chrono::milliseconds interval = std::chrono::milliseconds(200));

}  // namespace h5feed::gpu
