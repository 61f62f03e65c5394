// Where the elements of a dense tensor lie.
#pragma once

#include <cstdint>
#include <vector>

#include "h5feed/export.hpp"

namespace h5feed {

/// Strides in elements, one a dimension: row-major, or with the channels of (…,C,H,W) last of all.
H5FEED_EXPORT std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape,
                                                      bool channels_last);

}  // namespace h5feed
