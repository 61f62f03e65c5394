// Wall time of epochs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace h5feed {

/// Readable from any thread while an epoch runs; started and stopped by one.
class EpochClock {
 public:
  void start() noexcept {
    stop();
    started_ns_.store(now_ns());
  }
  void stop() noexcept {
    const std::int64_t started = started_ns_.exchange(kStopped);
    if (started != kStopped) total_ns_.fetch_add(static_cast<std::uint64_t>(now_ns() - started));
  }
  std::uint64_t total_ns() const noexcept {
    const std::int64_t started = started_ns_.load();
    return total_ns_.load() + (started == kStopped ? 0 : static_cast<std::uint64_t>(now_ns() - started));
  }

 private:
  static constexpr std::int64_t kStopped = -1;

  static std::int64_t now_ns() noexcept {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

  std::atomic<std::int64_t> started_ns_ = kStopped;
  std::atomic<std::uint64_t> total_ns_ = 0;
};

}  // namespace h5feed
