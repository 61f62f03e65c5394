// SPDX-License-Identifier: Apache-2.0
// Shows the stages of the loader in the timelines of NVIDIA's tools (Nsight Systems). Link h5feed::gpu.
#pragma once

#include <memory>

#include "h5feed/export.hpp"
#include "h5feed/trace.hpp"

namespace h5feed::gpu {

/// Returns a trace sink for `DataLoaderOptions::trace`. Each stage becomes a range of the NVTX domain
/// "h5feed" on the thread that does the work; the stage is its name and category, the batch number its
/// payload. A range costs a few nanoseconds if no tool listens. Does not call CUDA. Thread-safe; several
/// loaders may share it.
H5FEED_EXPORT std::shared_ptr<TraceSink> nvtx_trace();

}  // namespace h5feed::gpu
