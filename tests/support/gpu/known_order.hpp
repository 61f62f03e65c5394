// SPDX-License-Identifier: Apache-2.0
// An order of samples that is known beforehand, for tests of samples that stay on a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "batch/device.hpp"

namespace h5feed::test {

/// The sample of every turn. Not movable, because devices hold on to it.
struct KnownOrder {
  KnownOrder() = default;
  KnownOrder(const KnownOrder&) = delete;
  KnownOrder& operator=(const KnownOrder&) = delete;

  std::vector<std::int64_t> samples;
  std::uint64_t past = 0;            ///< Turns before this one are past
  std::optional<std::uint64_t> end;  ///< First turn that is not foreseen; unset: after the last one

  /// Returns whether a sample is due at turn `after` or later.
  bool is_due(std::int64_t sample, std::uint64_t after) const {
    const std::uint64_t last = std::min<std::uint64_t>(end.value_or(samples.size()), samples.size());
    const auto from = static_cast<std::ptrdiff_t>(std::min(std::max(after, past), last));
    return std::find(samples.begin() + from, samples.begin() + static_cast<std::ptrdiff_t>(last), sample) !=
           samples.begin() + static_cast<std::ptrdiff_t>(last);
  }

  /// Returns a function that foresees this order as it is when the function is called.
  Foresee foresee() const {
    return [this](std::span<const std::int64_t> of, std::uint64_t after) {
      Foreseen foreseen{.end = end.value_or(samples.size())};
      for (const std::int64_t sample : of) foreseen.due.push_back(is_due(sample, after));
      return foreseen;
    };
  }
};

}  // namespace h5feed::test
