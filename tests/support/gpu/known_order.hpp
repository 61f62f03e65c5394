// SPDX-License-Identifier: Apache-2.0
// An order of samples that is known beforehand, for tests of samples that stay on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "batch/device.hpp"

namespace h5feed::test {

/// The sample of every turn. Neither movable nor copyable, because devices hold on to it.
struct KnownOrder {
  KnownOrder() = default;
  KnownOrder(const KnownOrder&) = delete;
  KnownOrder& operator=(const KnownOrder&) = delete;

  std::vector<std::int64_t> samples;
  std::uint64_t past = 0;            ///< Turns before this one are past
  std::optional<std::uint64_t> end;  ///< First turn that is not foreseen; unset: after the last one

  /// Returns the turn at which a sample is due next, `after` at the earliest.
  std::uint64_t due(std::int64_t sample, std::uint64_t after) const {
    const std::uint64_t last = std::min<std::uint64_t>(end.value_or(samples.size()), samples.size());
    for (std::uint64_t turn = std::max(after, past); turn < last; ++turn) {
      if (samples[turn] == sample) return turn;
    }
    return DueTurns::kNever;
  }

  /// Returns a function that foresees this order as it is when the function is called.
  ForeseeTurns foresee() const {
    return [this](std::span<const std::int64_t> of, std::uint64_t after) {
      DueTurns known{.past = past, .end = end.value_or(samples.size())};
      for (const std::int64_t sample : of) known.turns.push_back(due(sample, after));
      return known;
    };
  }
};

}  // namespace h5feed::test
