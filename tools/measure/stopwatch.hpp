// SPDX-License-Identifier: Apache-2.0
// Clock of the commands' measurements.
#pragma once

#include <chrono>

namespace h5feed::cli {

using Clock = std::chrono::steady_clock;

/// Returns the seconds that have passed since `begin`.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace h5feed::cli
