// SPDX-License-Identifier: Apache-2.0
// The loader's stages in the timelines of NVIDIA's tools (Nsight Systems). Link h5feed::gpu.
#pragma once

#include <memory>

#include "h5feed/export.hpp"
#include "h5feed/trace.hpp"

namespace h5feed::gpu {

/// What `DataLoaderOptions::trace` takes: each stage becomes a range of the NVTX domain "h5feed" on the
/// thread that does the work, with the stage as its name and category and the number of the batch as its
/// payload. Without a tool that listens a range costs a few nanoseconds. Calls nothing of CUDA. Several
/// loaders may share it.
H5FEED_EXPORT std::shared_ptr<TraceSink> nvtx_trace();

}  // namespace h5feed::gpu
