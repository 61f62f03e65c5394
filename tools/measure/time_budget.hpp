// SPDX-License-Identifier: Apache-2.0
// The time that a command was given.
#pragma once

#include <chrono>

#include "base/clock.hpp"

namespace h5feed::cli {

/// Counts from its construction on. Copyable. Thread-safe.
class TimeBudget {
 public:
  /// `budget` is above 0.
  explicit TimeBudget(std::chrono::nanoseconds budget);

  double total_s() const noexcept { return std::chrono::duration<double>(budget_).count(); }
  /// Seconds since the start.
  double elapsed_s() const noexcept;
  /// When that share of the time is over.
  Clock::time_point part(double share) const noexcept;
  /// Seconds until then; below 0 behind it.
  double left_s(double share) const noexcept;
  /// That share of the time.
  std::chrono::nanoseconds slice(double share) const noexcept;

  /// Throws OptionError that names --time-budget and a sufficient time, where the time is over although only
  /// `done`, above 0 and at most 1, of what has to be done at least was done.
  void require_left(double done) const;

  /// Throws the same error: `least_s` seconds are needed.
  [[noreturn]] void refuse(double least_s) const;

 private:
  Clock::time_point start_;
  std::chrono::nanoseconds budget_;
};

}  // namespace h5feed::cli
