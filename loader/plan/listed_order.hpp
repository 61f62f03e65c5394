// SPDX-License-Identifier: Apache-2.0
// Orders without a rule about chunks: a subset as given or permuted, and the order of a user's sampler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "h5feed/sampler.hpp"
#include "plan/permutation.hpp"
#include "plan/sample_order.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// The samples of a subset in the given order. O(1) memory in addition to the subset.
class GivenOrder final : public SampleOrder {
 public:
  GivenOrder(std::shared_ptr<const SampleSubset> subset, std::uint64_t num_chunks)
      : SampleOrder(num_chunks), subset_(std::move(subset)) {}
  std::uint64_t size() const noexcept override { return subset_->size(); }
  std::uint64_t at(std::uint64_t position) const noexcept override { return subset_->given(position); }
  std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept override {
    return subset_->ascending() ? subset_->place_of(sample) : std::nullopt;
  }

 private:
  std::shared_ptr<const SampleSubset> subset_;
};

/// The samples of a subset, permuted. The result does not depend on the order in which the subset was given.
/// O(1) memory in addition to the subset.
class PermutedOrder final : public SampleOrder {
 public:
  PermutedOrder(std::shared_ptr<const SampleSubset> subset, std::uint64_t num_chunks, std::uint64_t key)
      : SampleOrder(num_chunks), subset_(std::move(subset)), order_(subset_->size(), key) {}
  std::uint64_t size() const noexcept override { return subset_->size(); }
  std::uint64_t at(std::uint64_t position) const noexcept override {
    return subset_->sorted(order_.at(position));
  }
  std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept override {
    const std::optional<std::uint64_t> place = subset_->place_of(sample);
    if (!place) return std::nullopt;
    return order_.position_of(*place);
  }

 private:
  std::shared_ptr<const SampleSubset> subset_;
  Permutation order_;
};

/// The order that a user's sampler gives. Its sample numbers index the subset if there is one, else the
/// dataset.
class SamplerOrder final : public SampleOrder {
 public:
  /// `num_samples`: size of the subset, or of the dataset if `subset` is null. `samples` is not null.
  SamplerOrder(std::shared_ptr<const EpochSamples> samples, std::shared_ptr<const SampleSubset> subset,
               std::uint64_t num_samples, std::uint64_t num_chunks)
      : SampleOrder(num_chunks),
        samples_(std::move(samples)),
        subset_(std::move(subset)),
        num_samples_(num_samples) {}
  std::uint64_t size() const noexcept override { return static_cast<std::uint64_t>(samples_->size()); }
  /// Throws OptionError if the sampler gives an invalid sample number, and whatever the sampler throws.
  std::uint64_t at(std::uint64_t position) const override;
  std::optional<std::uint64_t> position_of(std::uint64_t) const noexcept override { return std::nullopt; }

 private:
  std::shared_ptr<const EpochSamples> samples_;
  std::shared_ptr<const SampleSubset> subset_;
  std::uint64_t num_samples_;
};

/// Returns `sampler.epoch(seed, epoch)`, never null. Throws OptionError if it is null or its size is
/// negative, and whatever the sampler throws.
std::shared_ptr<const EpochSamples> epoch_of(const Sampler& sampler, std::uint64_t seed, std::uint64_t epoch);
/// Returns `sampler.epoch(seed, epoch)`, never null. Throws OptionError if it is null, and whatever the
/// sampler throws.
std::shared_ptr<const EpochBatches> epoch_of(const BatchSampler& sampler, std::uint64_t seed,
                                             std::uint64_t epoch);

/// Maps a number that a sampler gave to a sample of the dataset, through `subset` if it is not null. Throws
/// OptionError unless 0 ≤ `number` < `num_samples`.
std::uint64_t sampled(std::int64_t number, std::uint64_t num_samples, const SampleSubset* subset);

}  // namespace h5feed
