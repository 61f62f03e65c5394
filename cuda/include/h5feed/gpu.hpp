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

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "h5feed/device.hpp"
#include "h5feed/export.hpp"

namespace h5feed::gpu {

/// Allocates pinned host memory of the given number of bytes, aligned to 64. Called by workers concurrently,
/// with one call for the samples of a batch and one for its targets; the memory must not be reused while a
/// copy from it runs. May throw: batches are in pageable memory then.
using PinnedAllocator = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// Returns the device of `name` for `DataLoaderOptions::device`, with the CUDA backend: "cuda" (= "cuda:0"),
/// "cuda:N", "auto" or "cpu". With "cpu" the backend serves `DataLoaderOptions::pin_memory`: `allocate`
/// provides the memory of CPU batches; empty: the loader recycles pinned memory of its own. Does not call
/// CUDA and does not check the name; the constructor of a loader does. Several loaders may share the value.
/// Thread-safe.
H5FEED_EXPORT LoaderDevice device(std::string name, PinnedAllocator allocate = {});

/// Makes the loaders of this process free GPU memory that they keep samples in
/// (`DataLoaderOptions::gpu_cache_bytes`), if less than a thirty-second of the GPU of CUDA ordinal `device`
/// is free, until a sixteenth is. Meant to be called by an allocator before it takes memory from the driver;
/// <h5feed/torch.hpp> makes LibTorch's allocator do so. Waits for the GPU if memory is freed. Calls CUDA and
/// the log function, but no allocator of GPU memory. Thread-safe.
H5FEED_EXPORT void keep_memory_free(int device) noexcept;

}  // namespace h5feed::gpu
