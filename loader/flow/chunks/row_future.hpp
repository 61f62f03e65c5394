// SPDX-License-Identifier: Apache-2.0
// Predicts when rows are due, from the plan of the running epoch and of the next one.
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
/// `EpochPlan::turn_of`. A turn always denotes the same sample: a round with the plan of the previous or of
/// the predicted round takes that one's base, any other round takes an unused one. So predictions decide what
/// is worth keeping, never what is delivered. Thread-safe.
class RowFuture {
 public:
  /// Creates the numbering; `turns_per_batch` is the number of samples in a full batch.
  explicit RowFuture(std::uint64_t turns_per_batch) : turns_per_batch_(turns_per_batch) {}

  /// One run through the data. Seed, epoch, start and end identify the plan within a loader.
  struct Round {
    std::shared_ptr<const EpochPlan> plan;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t start = 0;  ///< PlanSpec::start
    std::uint64_t end = 0;    ///< PlanSpec::end
  };

  /// Starts `running` at its first batch; `next` is the round expected after it (without a plan if unknown).
  void issue(Round running, Round next) H5FEED_EXCLUDES(mutex_);

  /// Returns the turn of the first sample of batch number `batch_number` of the round issued last.
  std::uint64_t first_turn(std::uint64_t batch_number) const H5FEED_EXCLUDES(mutex_);

  /// Records that the batch starting at turn `first_turn` is planned and its visits are known to all threads.
  /// Has no effect before the first `issue`, nor if memory lacks: some rows are then kept in vain
  /// until the round ends.
  void planned(std::uint64_t first_turn) noexcept H5FEED_EXCLUDES(mutex_);

  /// Snapshot of the due times. Rows of batches planned before it count as served.
  class DueTimes {
   public:
    /// Returns the turn at which `sample` is due next; nullopt if it is due neither in this round nor in the
    /// predicted one. `served` lists further turns that are past, sorted.
    std::optional<std::uint64_t> due(std::uint64_t sample, std::span<const std::uint64_t> served) const;
    /// Returns the turn, at `after` at the earliest, at which `sample` is due next; nullopt if it is due
    /// neither in this round nor in the predicted one.
    std::optional<std::uint64_t> due_after(std::uint64_t sample, std::uint64_t after) const;

    /// Returns the first turn after both rounds.
    std::uint64_t end() const noexcept { return end_; }

   private:
    friend class RowFuture;
    template <typename Past>
    std::optional<std::uint64_t> due_unless(std::uint64_t sample, const Past& past) const;

    Round running_;
    Round next_;
    std::uint64_t base_ = 0;
    std::uint64_t next_base_ = 0;
    std::uint64_t planned_end_ = 0;
    std::uint64_t end_ = 0;
  };
  /// Returns the due times known now.
  DueTimes due_times() const H5FEED_EXCLUDES(mutex_);

 private:
  std::uint64_t turns_of(const Round& round) const noexcept;
  std::uint64_t claim_turns(const Round& round) H5FEED_REQUIRES(mutex_);

  const std::uint64_t turns_per_batch_;
  mutable Mutex mutex_;
  std::uint64_t unclaimed_ H5FEED_GUARDED_BY(mutex_) = 0;      // first turn without a meaning
  DueTimes now_ H5FEED_GUARDED_BY(mutex_);                     // all turns before planned_end_ are planned
  std::set<std::uint64_t> planned_ H5FEED_GUARDED_BY(mutex_);  // first turns of later planned batches
};

}  // namespace h5feed
