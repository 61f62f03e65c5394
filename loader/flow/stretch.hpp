// SPDX-License-Identifier: Apache-2.0
// The parts in which an epoch is delivered: one, or several if a run resumes inside an echo.
#pragma once

#include <cstdint>
#include <deque>

namespace h5feed {

/// Progress of a run within an epoch. Positions are those of the plan and count the samples of all ranks.
struct EpochPlace {
  std::uint64_t position = 0;      ///< samples before it are delivered completely, with all repeats
  std::int64_t repeat = 0;         ///< past deliveries of the samples [position, position + echo_samples)
  std::uint64_t echo_samples = 0;  ///< samples of an unfinished echo; 0 if there is none, then `repeat` is 0
  std::uint64_t echo_ahead = 0;    ///< first samples of the echo that were delivered `repeat` + 1 times
};

/// Positions [start, end) of an epoch. Each of its batches is delivered as repeats [first_repeat,
/// end_repeat).
struct Stretch {
  /// Value of `end` for a stretch that extends to the end of the epoch.
  static constexpr std::uint64_t kToTheEnd = UINT64_MAX;

  std::uint64_t start = 0;
  std::uint64_t end = kToTheEnd;
  std::int64_t first_repeat = 0;
  std::int64_t end_repeat = 1;
  std::uint64_t echo_begin = 0;  ///< start of the echo that ends at `end`; unused if `end` is kToTheEnd

  /// Returns true if the stretch is part of an echo that an earlier run began.
  bool finishes_echo() const noexcept { return end != kToTheEnd; }
  /// Returns the progress of a run that has delivered every position of the stretch before `position`.
  EpochPlace place_at(std::uint64_t position) const noexcept {
    if (!finishes_echo()) return {.position = position};
    return {echo_begin, first_repeat, end - echo_begin, position - echo_begin};
  }

  bool operator==(const Stretch&) const = default;
};

/// Returns the outstanding deliveries of the echo in which a run stopped at `place`, so that each of its
/// samples is delivered `factor` times. `batch_samples` is the number of samples per batch on all ranks
/// together. If one batch holds all samples of the echo, its remaining whole repeats form one stretch, else
/// one stretch each: then at any time only a leading part of the samples is one delivery ahead, which a saved
/// state can express. Empty if `place` is not inside an echo.
std::deque<Stretch> rest_of_echo(const EpochPlace& place, std::int64_t factor, std::uint64_t batch_samples);

}  // namespace h5feed
