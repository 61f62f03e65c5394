// SPDX-License-Identifier: Apache-2.0
// Mixtures: several datasets as one, drawn from by weights.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "h5feed/dataset.hpp"
#include "h5feed/export.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// One set of a mixture.
struct MixedSet {
  /// A dataset, or a subset or part of a split.
  Dataset dataset;
  /// Share of the samples that are drawn from the set, relative to the weights of the other sets. Finite, and
  /// at least 1/4096 of their sum.
  double weight = 1;
  /// Order within the set. Default: `DataLoaderOptions::shuffle`. K of "chunk:K" counts chunks of this set.
  std::optional<Shuffle> shuffle = {};
};

/// Size of an epoch of a mixture. `shortest`: the epoch ends before a set would repeat a sample. `longest`:
/// the epoch ends when every sample of every set has been drawn. Otherwise a number of samples over all
/// ranks. Converts implicitly from "shortest", "longest" and integers.
class H5FEED_EXPORT EpochSize {
 public:
  /// Rule for the end of an epoch. `samples`: after a number of samples.
  enum class Kind : std::uint8_t { shortest, longest, samples };

  /// Creates the rule `shortest`.
  EpochSize() = default;
  /// Creates a number of samples. Throws OptionError if it is below 1.
  template <std::integral Integer>
  // NOLINTNEXTLINE(google-explicit-constructor)
  requires(!std::same_as<Integer, bool>) EpochSize(Integer samples)
      : kind_(Kind::samples), samples_(static_cast<std::int64_t>(samples)) {
    if (std::cmp_less(samples, 1) || !std::in_range<std::int64_t>(samples)) refuse_samples();
  }
  /// Accepts "shortest" and "longest". Throws OptionError for any other text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  EpochSize(std::string_view text);
  /// Accepts "shortest" and "longest". Throws OptionError for any other text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  EpochSize(const char* text) : EpochSize(std::string_view(text)) {}
  /// Accepts "shortest" and "longest". Throws OptionError for any other text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  EpochSize(const std::string& text) : EpochSize(std::string_view(text)) {}

  /// Returns the rule.
  Kind kind() const noexcept { return kind_; }
  /// Returns the number of samples; 0 unless `kind()` is `samples`.
  std::int64_t samples() const noexcept { return samples_; }

 private:
  [[noreturn]] static void refuse_samples();

  Kind kind_ = Kind::shortest;
  std::int64_t samples_ = 0;
};

/// Options of `mix`.
struct MixOptions {
  /// Samples of an epoch.
  EpochSize epoch_size = {};
};

/// Returns a dataset whose loaders draw from several sets by weights. All sets need the same shape, type and
/// layout of samples, of the target and of the fields; the values stay where they are, and caches, workers
/// and devices work as for any dataset. Tiles and other mixtures cannot be mixed.
///
/// The weights are rounded to q/4096 with sum 1. The order of an epoch is a sequence of blocks of 4096
/// positions, each with exactly q samples of every set, permuted by (seed, epoch, block); a last, shorter
/// block has its share of every set. The samples of a set come in the order of its `shuffle`, and in a new
/// order each time that the set is exhausted, and in each epoch. Every epoch of a mixture has the same
/// number of samples.
///
/// Samples are numbered set after set; `Batch::sets` and `SampleOrigin::set` name the set of a sample.
/// `size()` is the number of samples of all sets. Two sets of one file do not share cached chunks. Loaders of
/// a mixture take no sampler and no `Shard::by_chunk`; `Dataset::subset` and `Dataset::split` throw
/// OptionError, as they belong before the mixture.
///
/// Copies targets and fields that the sets hold in memory, up to 64 MiB each, and 8 bytes per sample if a set
/// is a subset. Does not read files. Throws OptionError if there is no set, more than 4096, a weight that is
/// not finite or below 1/4096 of the sum, a mixture or a dataset of tiles among the sets, or a `chunk:K`
/// above the number of chunks of its set; DatasetError, naming both, if two sets do not match.
H5FEED_EXPORT Dataset mix(std::span<const MixedSet> sets, const MixOptions& options = {});
/// Mixes as the overload for a span does: `mix({{a, 0.7}, {b, 0.3}})`.
inline Dataset mix(std::initializer_list<MixedSet> sets, const MixOptions& options = {}) {
  return mix(std::span<const MixedSet>(sets.begin(), sets.size()), options);
}

}  // namespace h5feed
