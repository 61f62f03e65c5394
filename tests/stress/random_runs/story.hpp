// SPDX-License-Identifier: Apache-2.0
// Steps of a random run.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/mutex.hpp"

namespace h5feed::test {

/// Progress of a run: its present step, for messages, and the time of its last call. Thread-safe.
class Story {
 public:
  void add(const std::string& line) {
    ++steps_;
    const MutexLock lock(mutex_);
    text_ += line + "\n";
  }
  std::string text() const {
    const MutexLock lock(mutex_);
    return text_;
  }
  /// Tells that a call of a loader returned.
  void go_on() noexcept { ++steps_; }
  /// Grows as long as the run goes on.
  std::uint64_t steps() const noexcept { return steps_; }

 private:
  std::atomic<std::uint64_t> steps_ = 0;
  mutable Mutex mutex_;
  std::string text_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed::test
