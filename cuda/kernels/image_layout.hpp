// SPDX-License-Identifier: Apache-2.0
// Memory layout of a batch of images before and after a kernel.
#pragma once

#include <cstdint>

#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// A dense batch of images before (`in_`) and after (`out_`) crop and layout change. Extents in elements. All
/// offsets have 64 bits: a batch may exceed 2^31 elements.
struct ImageLayout {
  std::int64_t samples = 0;
  std::int64_t channels = 1;
  std::int64_t in_height = 1;
  std::int64_t in_width = 1;
  std::int64_t out_height = 1;
  std::int64_t out_width = 1;
  bool in_channels_last = false;   ///< Source is (N,H,W,C), else (N,C,H,W)
  bool out_channels_last = false;  ///< Output is (N,H,W,C), else (N,C,H,W)
  bool resizes = false;            ///< The window of each sample's transform is scaled to the output

  std::int64_t in_elements() const noexcept { return samples * channels * in_height * in_width; }
  std::int64_t out_elements() const noexcept { return samples * channels * out_height * out_width; }
};

}  // namespace h5feed::gpu
