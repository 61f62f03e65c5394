// SPDX-License-Identifier: Apache-2.0
// Waits for what another process or thread does.
#pragma once

#include <chrono>
#include <thread>

namespace h5feed::test {

/// Blocks until `condition` returns true, which is asked every 2 ms, or until `longest` is over. Returns
/// whether it became true. The default is long enough for a busy machine.
template <typename Condition>
[[nodiscard]] bool wait_until(const Condition& condition,
                              std::chrono::milliseconds longest = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace h5feed::test
