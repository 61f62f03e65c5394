// SPDX-License-Identifier: Apache-2.0
// Chooses the samples of batches that would contain unreadable ones.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/faults/bad_data.hpp"
#include "h5feed/options.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Leaves out or replaces the samples that `BadData` knows to be unreadable, and keeps their number within
/// the quota. The result depends on the seed, the epoch and on which chunks are bad, not on threads or on the
/// order in which chunks were found: a batch that runs into an unknown bad chunk is chosen again.
/// Thread-safe.
class SampleChoice {
 public:
  /// The decisions of the options.
  struct Settings {
    OnError on_error = OnError::skip;
    double max_bad_share = 0;
  };

  /// Borrows `dataset` and `bad`. `chosen` is the subset of samples; null selects all.
  SampleChoice(const DatasetState& dataset, std::shared_ptr<const SampleSubset> chosen, const BadData& bad,
               const Settings& settings);

  /// Leaves out or replaces the samples of a job of a plan, whose planned samples are set, and fills in
  /// `planned_at` and `bad_samples`. Calls a sampler. Throws ChunkError if they alone exceed the quota, or no
  /// replacement can be found; what the sampler throws; std::bad_alloc.
  void apply(BatchJob& job) const;

  /// Returns whether bad samples are left out; otherwise they are replaced.
  bool skips() const noexcept { return settings_.on_error == OnError::skip; }

  /// Returns whether so many bad samples are more than `max_bad_share` allows in the epoch of a plan.
  bool exceeds_quota(std::uint64_t bad_samples, const EpochPlan& plan) const noexcept;
  /// Throws ChunkError if `bad_samples` of the epoch, up to and including the batch of `job`, exceed the
  /// quota.
  void check_quota(std::uint64_t bad_samples, const BatchJob& job) const;

 private:
  struct Places {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  Places places_in(std::uint64_t chunk) const;
  Places choices_for(std::uint64_t sample) const;
  void leave_out(BatchJob& job, const std::vector<bool>& spoiled) const;
  void replace(BatchJob& job, const std::vector<bool>& spoiled) const;
  std::int64_t replacement(const BatchJob& job, std::int64_t sample) const;
  std::int64_t draw(const BatchJob& job, std::uint64_t sample, std::uint64_t attempt) const;

  const DatasetState& dataset_;
  const std::shared_ptr<const SampleSubset> chosen_;
  const BadData& bad_;
  const Settings settings_;
};

}  // namespace h5feed
