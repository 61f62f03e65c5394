// Some of a dataset's samples, as a list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace h5feed {

/// Distinct sample numbers in the order given. Immutable and thread-safe; 8 bytes a sample, twice that where
/// the order given is not ascending.
class SampleSubset {
 public:
  /// Distinct, at least one.
  explicit SampleSubset(std::vector<std::uint64_t> samples);

  std::uint64_t size() const noexcept { return given_.size(); }
  bool ascending() const noexcept { return sorted_.empty(); }
  /// In the order given.
  std::uint64_t given(std::uint64_t position) const noexcept { return given_[position]; }
  /// In ascending order.
  std::uint64_t sorted(std::uint64_t position) const noexcept {
    return ascending() ? given_[position] : sorted_[position];
  }
  /// `sorted(place) == sample`; empty where the sample is not among them.
  std::optional<std::uint64_t> place_of(std::uint64_t sample) const noexcept;
  /// Equal for equal lists.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  std::vector<std::uint64_t> given_;
  std::vector<std::uint64_t> sorted_;  // empty: `given_` is
  std::uint64_t fingerprint_ = 0;
};

}  // namespace h5feed
