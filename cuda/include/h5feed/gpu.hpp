// SPDX-License-Identifier: Apache-2.0
// Delivery to NVIDIA GPUs. Link h5feed::gpu.
//
//   options.device = "cuda:0";
//   options.device_backend = h5feed::gpu::backend();
//   h5feed::DataLoader loader(data, options);
//   while (auto batch = loader.next()) {
//     batch->gpu->use_on(stream);  // a cudaStream_t
//     train<<<…, stream>>>(static_cast<const float*>(batch->gpu->data().data), …);
//   }
#pragma once

#include <memory>

#include "h5feed/export.hpp"
#include "h5feed/options.hpp"

namespace h5feed::gpu {

/// Returns the CUDA backend for `DataLoaderOptions::device_backend`. Does not call CUDA before a loader names
/// a GPU. Several loaders may share it, also with different GPUs. Thread-safe.
H5FEED_EXPORT std::shared_ptr<const DeviceBackend> backend();

}  // namespace h5feed::gpu
