// SPDX-License-Identifier: Apache-2.0
// Division that rounds up.
#pragma once

#include <cstdint>

namespace h5feed {

/// ⌈a / b⌉ without overflow; b ≥ 1.
constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace h5feed
