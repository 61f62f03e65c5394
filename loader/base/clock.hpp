// SPDX-License-Identifier: Apache-2.0
// The clock of h5feed's own measurements.
#pragma once

#include <chrono>
#include <cstdint>

namespace h5feed {

/// Nanoseconds of a monotonic clock with an arbitrary beginning. Thread-safe.
inline std::uint64_t now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace h5feed
