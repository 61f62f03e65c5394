// SPDX-License-Identifier: Apache-2.0
// Total wall time of epochs.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace h5feed {

/// Measures the total wall time of epochs. `start()` and `stop()` are for one thread; `total_ns()` is
/// thread-safe.
class EpochClock {
 public:
  /// Starts an epoch; ends a running one first.
  void start() noexcept {
    stop();
    started_ns_.store(now_ns());
  }
  /// Ends the running epoch, if any.
  void stop() noexcept {
    const std::uint64_t started = started_ns_.exchange(kStopped);
    if (started != kStopped) total_ns_.fetch_add(now_ns() - started);
  }
  /// Returns the nanoseconds of all epochs, including the running one so far.
  std::uint64_t total_ns() const noexcept {
    const std::uint64_t started = started_ns_.load();
    return total_ns_.load() + (started == kStopped ? 0 : now_ns() - started);
  }

 private:
  static constexpr std::uint64_t kStopped = ~std::uint64_t{0};

  std::atomic<std::uint64_t> started_ns_ = kStopped;
  std::atomic<std::uint64_t> total_ns_ = 0;
};

}  // namespace h5feed
