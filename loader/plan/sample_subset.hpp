// SPDX-License-Identifier: Apache-2.0
// A list of some of the samples of a dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace h5feed {

/// Distinct sample numbers in a given order. Immutable and thread-safe. Takes 8 bytes per sample, 16 if the
/// given order is not ascending.
class SampleSubset {
 public:
  /// Requires at least one sample and no duplicates.
  explicit SampleSubset(std::vector<std::uint64_t> samples);

  std::uint64_t size() const noexcept { return given_.size(); }
  /// Returns whether the given order is ascending.
  bool ascending() const noexcept { return sorted_.empty(); }
  /// Returns the sample at `position` of the given order.
  std::uint64_t given(std::uint64_t position) const noexcept { return given_[position]; }
  /// Returns the sample at `position` of the ascending order.
  std::uint64_t sorted(std::uint64_t position) const noexcept {
    return ascending() ? given_[position] : sorted_[position];
  }
  /// Returns the place with `sorted(place) == sample`, or nullopt if the sample is not in the list. O(log
  /// size).
  std::optional<std::uint64_t> place_of(std::uint64_t sample) const noexcept;
  /// Returns how many samples of the list are below `sample`: their places come before that number. O(log
  /// size).
  std::uint64_t count_below(std::uint64_t sample) const noexcept;
  /// Returns a hash of the list in its given order.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  std::vector<std::uint64_t> given_;
  std::vector<std::uint64_t> sorted_;  // empty if `given_` is ascending
  std::uint64_t fingerprint_ = 0;
};

}  // namespace h5feed
