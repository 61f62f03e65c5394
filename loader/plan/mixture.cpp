// SPDX-License-Identifier: Apache-2.0
#include "plan/mixture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "h5feed/error.hpp"
#include "plan/divide.hpp"
#include "plan/group_order.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// Adds what is missing in `counts` to `total`: one each to those with the largest remainders, of equal ones
// to the first.
template <typename Remainder>
void give_rest(std::vector<std::uint64_t>& counts, const std::vector<Remainder>& remainders,
               std::uint64_t total) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return remainders[i]; });
  const std::uint64_t given = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  for (std::uint64_t rest = 0; rest < total - given; ++rest) ++counts[order[rest % order.size()]];
}

// Returns the positions after which a set with `quota` positions in a block has drawn `samples`, rounded down
// or up; capped at 2^63 − 1.
std::uint64_t positions_for(std::uint64_t samples, std::uint64_t quota, bool up) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t scaled = 0;
  if (__builtin_mul_overflow(samples, kMixtureBlock, &scaled)) return kMost;
  return std::min(kMost, up ? ceil_div(scaled, quota) : scaled / quota);
}

}  // namespace

std::vector<std::uint64_t> mixture_quotas(std::span<const double> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] <= 0) {
      throw OptionError(fmt::format(
          "mix(): the weight of set {} is {}; weights must be finite and above 0; leave the set out instead",
          i, weights[i]));
    }
    sum += weights[i];
  }
  if (!std::isfinite(sum)) {
    throw OptionError(fmt::format("mix(): the sum of {} weights exceeds {:.3g}; divide them by their largest",
                                  weights.size(), std::numeric_limits<double>::max()));
  }
  constexpr double kRounding = 1e-9;  // rounding error of a share such as 1/4096
  std::vector<std::uint64_t> quotas;
  std::vector<double> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double wanted = weights[i] / sum * static_cast<double>(kMixtureBlock);
    const double whole = std::floor(wanted + kRounding);
    if (whole < 1) {
      throw OptionError(
          fmt::format("mix(): the weight {} of set {} is less than 1/{} of the sum of the weights; raise it, "
                      "or leave the set out",
                      weights[i], i, kMixtureBlock));
    }
    quotas.push_back(static_cast<std::uint64_t>(whole));
    remainders.push_back(wanted - whole);
  }
  give_rest(quotas, remainders, kMixtureBlock);
  return quotas;
}

Mixture::Mixture(std::vector<MixtureSet> sets, MixtureEnd end) : sets_(std::move(sets)) {
  for (const MixtureSet& set : sets_) {
    chunks_.push_back(set.subset ? chunk_groups(set.layout, set.subset.get()).size()
                                 : set.layout.num_chunks());
  }
  switch (end.kind) {
    case MixtureEnd::Kind::samples:
      size_ = end.samples;
      break;
    case MixtureEnd::Kind::shortest:
      size_ = std::numeric_limits<std::uint64_t>::max();
      for (const MixtureSet& set : sets_)
        size_ = std::min(size_, positions_for(set.size(), set.quota, false));
      break;
    case MixtureEnd::Kind::longest:
      for (const MixtureSet& set : sets_) size_ = std::max(size_, positions_for(set.size(), set.quota, true));
      break;
  }
}

std::vector<std::uint64_t> Mixture::counts_in_block(std::uint64_t positions) const {
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> remainders;
  for (const MixtureSet& set : sets_) {
    counts.push_back(positions * set.quota / kMixtureBlock);
    remainders.push_back(positions * set.quota % kMixtureBlock);
  }
  give_rest(counts, remainders, positions);
  return counts;
}

std::vector<std::uint64_t> Mixture::draws() const {
  std::vector<std::uint64_t> draws = counts_in_block(size_ % kMixtureBlock);
  for (std::size_t i = 0; i < draws.size(); ++i) draws[i] += size_ / kMixtureBlock * sets_[i].quota;
  return draws;
}

std::size_t Mixture::set_of(std::uint64_t sample) const noexcept {
  const auto after = std::ranges::upper_bound(sets_, sample, {}, &MixtureSet::first_sample);
  return static_cast<std::size_t>(after - sets_.begin()) - 1;
}

std::uint64_t Mixture::fingerprint() const noexcept {
  std::uint64_t hash = size_;
  const auto add = [&hash](std::uint64_t value) { hash = mix_key(hash, kMixtureOrder, value); };
  for (const MixtureSet& set : sets_) {
    add(set.quota);
    add(set.layout.regular() ? set.layout.rows_per_chunk() : set.layout.fingerprint());
    add(set.layout.num_rows());
    add(set.subset ? set.subset->fingerprint() : 0);
    add(set.shuffle ? 1 + static_cast<std::uint64_t>(set.shuffle->kind()) : 0);
    add(set.shuffle ? set.shuffle->window_chunks() : 0);
  }
  return hash;
}

}  // namespace h5feed
