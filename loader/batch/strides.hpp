// SPDX-License-Identifier: Apache-2.0
// Strides of dense tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "h5feed/export.hpp"

namespace h5feed {

/// Returns the strides of a dense tensor in elements, one per dimension: row-major, or, with `channels_last`
/// and at least 3 dimensions, with the channels of (…,C,H,W) innermost.
H5FEED_EXPORT std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape,
                                                      bool channels_last);

}  // namespace h5feed
