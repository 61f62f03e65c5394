// SPDX-License-Identifier: Apache-2.0
// The clock of all time measurements.
#pragma once

#include <chrono>
#include <cstdint>

namespace h5feed {

/// Monotonic clock of all time measurements.
using Clock = std::chrono::steady_clock;

/// Returns the nanoseconds since an arbitrary beginning. Thread-safe.
inline std::uint64_t now_ns() noexcept {
  const auto now = Clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// Returns the seconds since `begin`. Thread-safe.
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace h5feed
