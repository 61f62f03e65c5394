// SPDX-License-Identifier: Apache-2.0
// When rows are due: the plan of the batches in preparation, and of the epoch after it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "base/mutex.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Numbers the samples that a loader delivers over all its rounds: a sample's turn is its round's base plus
/// `EpochPlan::turn_of`. A turn always means the same sample: the next round takes the base that was
/// predicted for it only when it runs the predicted epoch, and else one that was never used. Predictions
/// thus decide what is worth keeping, never what is delivered. Thread-safe.
class RowFuture {
 public:
  /// `turns_per_batch`: samples of a full batch.
  explicit RowFuture(std::uint64_t turns_per_batch) : turns_per_batch_(turns_per_batch) {}

  /// One run through the data. (seed, epoch, start, end) tell plans of one loader apart.
  struct Round {
    std::shared_ptr<const EpochPlan> plan;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t start = 0;  ///< PlanSpec::start
    std::uint64_t end = 0;    ///< PlanSpec::end
  };

  /// Batches of `running` come next, from its first on; `next` is expected to follow it (no plan: unknown).
  void issue(Round running, Round next) H5FEED_EXCLUDES(mutex_);

  /// The turn of the first sample of a batch of the round issued last.
  std::uint64_t first_turn(std::uint64_t batch_number) const H5FEED_EXCLUDES(mutex_);

  /// The visits of the batch that begins at `first_turn` are known to all threads. Without effect before the
  /// first `issue`.
  void planned(std::uint64_t first_turn) H5FEED_EXCLUDES(mutex_);

  /// What is known at one moment. Rows of batches that were planned by then count as served.
  class DueTimes {
   public:
    /// When `sample` is due next; `served` (sorted) are turns that are past already. Empty: not in sight.
    std::optional<std::uint64_t> due(std::uint64_t sample, std::span<const std::uint64_t> served) const;

   private:
    friend class RowFuture;
    Round running_;
    Round next_;
    std::uint64_t base_ = 0;
    std::uint64_t next_base_ = 0;
    std::uint64_t planned_end_ = 0;
  };
  DueTimes due_times() const H5FEED_EXCLUDES(mutex_);

 private:
  std::uint64_t turns_of(const Round& round) const noexcept;
  std::uint64_t claim_turns(const Round& round) H5FEED_REQUIRES(mutex_);

  const std::uint64_t turns_per_batch_;
  mutable Mutex mutex_;
  std::uint64_t unclaimed_ H5FEED_GUARDED_BY(mutex_) = 0;  // turns from here on have no meaning yet
  DueTimes now_ H5FEED_GUARDED_BY(mutex_);                 // planned_end_: all turns before it are planned
  std::set<std::uint64_t> planned_ H5FEED_GUARDED_BY(mutex_);  // first turns of batches planned beyond it
};

}  // namespace h5feed
