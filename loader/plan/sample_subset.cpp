// SPDX-License-Identifier: Apache-2.0
#include "plan/sample_subset.hpp"

#include <algorithm>
#include <utility>

#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {

SampleSubset::SampleSubset(std::vector<std::uint64_t> samples) : given_(std::move(samples)) {
  if (!std::ranges::is_sorted(given_)) {
    sorted_ = given_;
    std::ranges::sort(sorted_);
  }
  fingerprint_ = given_.size();
  for (const std::uint64_t sample : given_) fingerprint_ = mix_key(fingerprint_, kSubsetOrder, sample);
}

std::optional<std::uint64_t> SampleSubset::place_of(std::uint64_t sample) const noexcept {
  const std::vector<std::uint64_t>& all = ascending() ? given_ : sorted_;
  const auto at = std::ranges::lower_bound(all, sample);
  if (at == all.end() || *at != sample) return std::nullopt;
  return static_cast<std::uint64_t>(at - all.begin());
}

std::uint64_t SampleSubset::count_below(std::uint64_t sample) const noexcept {
  const std::vector<std::uint64_t>& all = ascending() ? given_ : sorted_;
  return static_cast<std::uint64_t>(std::ranges::lower_bound(all, sample) - all.begin());
}

}  // namespace h5feed
