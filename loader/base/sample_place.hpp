// SPDX-License-Identifier: Apache-2.0
// Places of the samples of a batch in the memory that it is assembled in.
#pragma once

#include <cstdint>
#include <limits>

namespace h5feed {

/// Place of a sample that need not be assembled, because the GPU keeps its data.
inline constexpr std::uint32_t kOnDevice = std::numeric_limits<std::uint32_t>::max();

}  // namespace h5feed
