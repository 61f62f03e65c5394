// SPDX-License-Identifier: Apache-2.0
#include "batch/strides.hpp"

#include <algorithm>
#include <cstddef>

namespace h5feed {

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape, bool channels_last) {
  std::vector<std::int64_t> strides(shape.size());
  std::vector<std::size_t> order(shape.size());  // outermost first
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (channels_last && shape.size() >= 3) {
    const auto channel = order.begin() + static_cast<std::ptrdiff_t>(shape.size() - 3);
    std::rotate(channel, channel + 1, order.end());
  }
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
  }
  return strides;
}

}  // namespace h5feed
