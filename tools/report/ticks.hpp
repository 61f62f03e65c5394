// SPDX-License-Identifier: Apache-2.0
// Round numbers along the axes of charts.
#pragma once

#include <string>
#include <vector>

namespace h5feed::cli {

/// Marks of an axis from 0, evenly spaced, at round numbers.
struct Ticks {
  double step = 1;
  std::vector<double> values;

  double top() const noexcept { return values.back(); }
  /// Returns the text of a mark: "0.25", "1,500", "20k".
  std::string text(double value) const;
};

/// Returns about `count` marks, the last of which is at or above `largest`; 0 and 1 if that is not positive.
Ticks ticks_up_to(double largest, int count);

}  // namespace h5feed::cli
