// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/sample_subset.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// Returns a fraction of three digits, rounded up, of which `n` samples have one.
double least_fraction(std::uint64_t n) {
  const double exact = 1.0 / static_cast<double>(n);
  const double scale = std::pow(10.0, 2.0 - std::floor(std::log10(exact)));
  double fraction = std::round(exact * scale) / scale;
  if (std::floor(static_cast<double>(n) * fraction) < 1) fraction = (std::round(exact * scale) + 1) / scale;
  return fraction;
}

// Returns how many of `n` samples, images or episodes each part of a split gets. `what`: " image", or empty
// for samples.
std::vector<std::uint64_t> sizes_of_parts(std::span<const double> fractions, std::uint64_t n,
                                          const char* what) {
  constexpr double kTolerance = 1e-9;  // rounding error of a sum of decimal fractions
  double sum = 0;
  for (const double fraction : fractions) {
    if (!(fraction > 0 && fraction <= 1)) {
      throw OptionError(fmt::format("split fractions must be above 0 and at most 1; got {}", fraction));
    }
    sum += fraction;
  }
  if (!(std::abs(sum - 1) <= kTolerance)) {
    throw OptionError(fmt::format("split fractions must sum to 1; they sum to {}", sum));
  }
  std::vector<std::uint64_t> sizes;
  for (const double fraction : fractions)
    sizes.push_back(static_cast<std::uint64_t>(std::floor(static_cast<double>(n) * fraction)));
  std::uint64_t left = n - std::min(n, std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  for (std::size_t part = 0; left > 0; part = (part + 1) % sizes.size(), --left) ++sizes[part];
  for (std::size_t part = 0; part < sizes.size(); ++part) {
    if (sizes[part] > 0) continue;
    throw OptionError(fmt::format("part {} of the split would have no samples: {} of {}{}{}; use at least {}",
                                  part, fractions[part], format_count(n), what,
                                  n == 1 || *what == '\0' ? "" : "s", least_fraction(n)));
  }
  return sizes;
}

void refuse_mixture(const DatasetState& dataset, const char* call) {
  if (!dataset.mixture) return;
  throw OptionError(
      fmt::format("{}() of a mixture is not supported; call it for each set, before mix()", call));
}

}  // namespace

Dataset Dataset::subset(std::span<const std::int64_t> samples) const {
  refuse_mixture(*state_, "subset");
  if (samples.empty()) throw OptionError("a subset needs at least one sample; the list is empty");
  std::vector<std::uint64_t> chosen;
  chosen.reserve(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] < 0 || samples[i] >= size()) {
      throw OptionError(
          fmt::format("entry {} of the subset is sample {}; the dataset has {}, numbered 0 to {}", i,
                      samples[i], format_count(static_cast<std::uint64_t>(size())), size() - 1));
    }
    const auto place = static_cast<std::uint64_t>(samples[i]);
    chosen.push_back(chosen_ ? chosen_->given(place) : place);
  }
  auto subset = std::make_shared<const SampleSubset>(std::move(chosen));
  for (std::uint64_t place = 1; place < subset->size(); ++place) {
    if (subset->sorted(place) != subset->sorted(place - 1)) continue;
    throw OptionError(
        fmt::format("sample {} comes twice in the subset; a sampler may repeat samples, e.g. "
                    "WeightedRandomSampler",
                    subset->sorted(place)));
  }
  Dataset part(state_);
  part.chosen_ = std::move(subset);
  return part;
}

std::vector<Dataset> Dataset::split(std::span<const double> fractions, std::uint64_t seed, SplitBy by) const {
  refuse_mixture(*state_, "split");
  const bool has_parts = state_->tiling || state_->episodes;
  if (by == SplitBy::part && !has_parts) {
    throw OptionError(
        "SplitBy::part keeps the tiles of an image or the samples of an episode together, and the dataset "
        "has neither; use SplitBy::automatic");
  }
  const auto n = static_cast<std::uint64_t>(size());
  if (by == SplitBy::sample || !has_parts) {
    const std::vector<std::uint64_t> sizes = sizes_of_parts(fractions, n, "");
    const Permutation order(n, mix_key(seed, kSplit, 0));
    std::vector<Dataset> parts;
    std::uint64_t position = 0;
    for (const std::uint64_t count : sizes) {
      std::vector<std::int64_t> samples;
      samples.reserve(count);
      for (std::uint64_t i = 0; i < count; ++i)
        samples.push_back(static_cast<std::int64_t>(order.at(position++)));
      std::ranges::sort(samples);
      parts.push_back(subset(samples));
    }
    return parts;
  }
  if (state_->options.episodes && state_->options.episodes->index == EpisodeOptions::Index::series) {
    throw OptionError(fmt::format(
        "{} makes all rows one episode, which split() keeps together; open the files of each part as a "
        "dataset, or use SplitBy::sample, with which windows of one part may hold rows of another",
        spelled("episodes.index", "series")));
  }
  // The images or episodes that have samples here, in order, and the samples of each.
  std::map<std::uint64_t, std::vector<std::int64_t>> units;
  for (std::uint64_t place = 0; place < n; ++place) {
    const std::uint64_t sample = chosen_ ? chosen_->given(place) : place;
    const std::uint64_t unit =
        state_->tiling ? state_->tiling->image_of(sample) : state_->episodes->anchors->episode_of(sample);
    units[unit].push_back(static_cast<std::int64_t>(place));
  }
  std::vector<const std::vector<std::int64_t>*> in_order;
  for (const auto& [unit, samples] : units) in_order.push_back(&samples);
  const std::vector<std::uint64_t> sizes =
      sizes_of_parts(fractions, units.size(), state_->tiling ? " image" : " episode");
  const Permutation order(units.size(), mix_key(seed, kSplit, 0));
  std::vector<Dataset> parts;
  std::uint64_t position = 0;
  for (const std::uint64_t count : sizes) {
    std::vector<std::int64_t> samples;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::vector<std::int64_t>& of_unit = *in_order[order.at(position++)];
      samples.insert(samples.end(), of_unit.begin(), of_unit.end());
    }
    std::ranges::sort(samples);
    parts.push_back(subset(samples));
  }
  return parts;
}

}  // namespace h5feed
