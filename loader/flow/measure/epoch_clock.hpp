// SPDX-License-Identifier: Apache-2.0
// Wall time of epochs.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace h5feed {

/// Readable from any thread while an epoch runs; started and stopped by one.
class EpochClock {
 public:
  void start() noexcept {
    stop();
    started_ns_.store(now_ns());
  }
  void stop() noexcept {
    const std::uint64_t started = started_ns_.exchange(kStopped);
    if (started != kStopped) total_ns_.fetch_add(now_ns() - started);
  }
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
