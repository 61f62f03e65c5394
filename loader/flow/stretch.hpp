// SPDX-License-Identifier: Apache-2.0
// The parts in which an epoch is delivered: one, or several where a run resumes inside an echo.
#pragma once

#include <cstdint>
#include <deque>

namespace h5feed {

/// Where a run stands in an epoch. Positions are those of the plan, in samples of all ranks.
struct EpochPlace {
  std::uint64_t position = 0;      ///< everything before it was delivered as often as it shall be
  std::uint64_t repeat = 0;        ///< deliveries of the samples [position, position + echo_samples) before
  std::uint64_t echo_samples = 0;  ///< 0 where no echo was begun: then `repeat` is 0 too
  std::uint64_t echo_ahead = 0;    ///< the first of them, delivered once more than that
};

/// Positions [start, end) of an epoch, whose batches are delivered as the repeats [first_repeat, end_repeat).
struct Stretch {
  static constexpr std::uint64_t kToTheEnd = UINT64_MAX;

  std::uint64_t start = 0;
  std::uint64_t end = kToTheEnd;
  std::uint64_t first_repeat = 0;
  std::uint64_t end_repeat = 1;
  std::uint64_t echo_begin = 0;  ///< of the echo that ends at `end`; without meaning where `end` is kToTheEnd

  /// Whether it is part of an echo that an earlier run began.
  bool finishes_echo() const noexcept { return end != kToTheEnd; }
  /// Where the run stands when all positions of the stretch before `position` are delivered.
  EpochPlace place_at(std::uint64_t position) const noexcept {
    if (!finishes_echo()) return {.position = position};
    return {echo_begin, first_repeat, end - echo_begin, position - echo_begin};
  }

  bool operator==(const Stretch&) const = default;
};

/// Returns the rest of an echo that a run stopped in, for batches of `batch_samples` on all ranks together:
/// its samples as often as they lack deliveries. One stretch where a batch holds them all; else one for each
/// repeat, so that at any moment some of them, from the first on, are one delivery ahead of the others, which
/// a saved state can hold. Empty where no echo was begun.
std::deque<Stretch> rest_of_echo(const EpochPlace& place, std::uint64_t factor, std::uint64_t batch_samples);

}  // namespace h5feed
