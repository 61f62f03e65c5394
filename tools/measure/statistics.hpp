// SPDX-License-Identifier: Apache-2.0
// Statistics of repeated measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace h5feed::cli {

/// Returns the middle value, or the mean of the two middle ones; 0 if empty.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Returns (largest − smallest) / median; 0 if the median is not positive.
inline double relative_spread(const std::vector<double>& values) {
  const double middle = median(values);
  if (middle <= 0) return 0;
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  return (*largest - *smallest) / middle;
}

}  // namespace h5feed::cli
