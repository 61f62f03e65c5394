// SPDX-License-Identifier: Apache-2.0
// Measures a loader with `num_workers = kAuto`, and says what it should use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/mutex.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/thread_clocks.hpp"
#include "flow/tuning/worker_controller.hpp"

namespace h5feed {

/// Feeds a `WorkerController` with the counters of a loader at each delivered batch. It has no thread of its
/// own. `delivered` and `log_if_lasting` are for the consumer's thread; the other functions are thread-safe.
class SelfTuning {
 public:
  using Choice = WorkerController::Choice;

  /// `counters` and `clocks` must outlive it. `cpus_bound_by` names the origin of the CPU limit.
  SelfTuning(const WorkerController::Bounds& bounds, const Counters& counters, const ThreadClocks& clocks,
             std::string cpus_bound_by);

  /// Records that the consumer has taken a batch, when `ready` further ones were ready; `goes_on` is false
  /// for the first batch of a round. Returns the choice if it has changed.
  std::optional<Choice> delivered(std::uint64_t ready, bool goes_on) H5FEED_EXCLUDES(mutex_);

  /// Logs the choice once it has stood for a while, and again when another one has. Throws what the log sink
  /// throws.
  void log_if_lasting() H5FEED_EXCLUDES(mutex_);

  /// Returns what to use now.
  Choice choice() const H5FEED_EXCLUDES(mutex_);

  /// Returns what is in use and why, as one line for display.
  std::string summary() const H5FEED_EXCLUDES(mutex_);

 private:
  // Totals of the counters at a moment.
  struct Totals {
    std::uint64_t now_ns = 0, busy_ns = 0, cpu_ns = 0, storage_wait_ns = 0, fetch_wait_ns = 0, batches = 0,
                  bytes = 0;
  };

  Totals totals() const;
  std::uint64_t input_wait_ns() const noexcept;
  std::string describe() const H5FEED_REQUIRES(mutex_);

  const Counters& counters_;
  const ThreadClocks& clocks_;
  const WorkerController::Bounds bounds_;
  const std::string cpus_bound_by_;
  // The next five are used by the consumer's thread only.
  Totals window_begin_;
  std::uint64_t last_ns_;
  std::uint64_t last_wait_ns_ = 0;
  unsigned standing_ = 0;            // windows since the choice has changed
  std::int64_t logged_workers_ = 0;  // 0: nothing was logged
  mutable Mutex mutex_;
  WorkerController controller_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
