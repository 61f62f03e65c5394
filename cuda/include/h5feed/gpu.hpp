// SPDX-License-Identifier: Apache-2.0
// Delivery to NVIDIA GPUs. Link h5feed::gpu.
//
//   options.device = h5feed::gpu::device("cuda:0");
//   h5feed::DataLoader loader(data, options);
//   while (auto batch = loader.next()) {
//     batch->gpu->use_on(stream);  // a cudaStream_t
//     train<<<…, stream>>>(static_cast<const float*>(batch->gpu->data().data), …);
//   }
#pragma once

#include <string>

#include "h5feed/device.hpp"
#include "h5feed/export.hpp"

namespace h5feed::gpu {

/// Returns the device of `name` for `DataLoaderOptions::device`, with the CUDA backend: "cuda" (= "cuda:0"),
/// "cuda:N", "auto" or "cpu". Does not call CUDA and does not check the name; the constructor of a loader
/// does. Several loaders may share the value. Thread-safe.
H5FEED_EXPORT LoaderDevice device(std::string name);

}  // namespace h5feed::gpu
