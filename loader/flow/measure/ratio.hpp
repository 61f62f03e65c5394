// SPDX-License-Identifier: Apache-2.0
// Quotients of counters.
#pragma once

#include <cstdint>

namespace h5feed {

/// Returns a / b, and 0 where b is 0.
inline double ratio(std::uint64_t a, std::uint64_t b) noexcept {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

/// Returns `part` / `whole`, or 0 if `whole` is not positive.
constexpr double real_ratio(double part, double whole) noexcept { return whole > 0 ? part / whole : 0; }

}  // namespace h5feed
