// SPDX-License-Identifier: Apache-2.0
// Loader options for a GPU.
#pragma once

#include <string>

#include "h5feed/gpu.hpp"
#include "h5feed/options.hpp"

namespace h5feed::test {

/// Returns the options with delivery to `device`.
inline DataLoaderOptions on_gpu(DataLoaderOptions options, const std::string& device = "cuda:0") {
  options.device = gpu::device(device);
  return options;
}

}  // namespace h5feed::test
