// SPDX-License-Identifier: Apache-2.0
// Which chunks to load for batches that are not in preparation yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Chunks that the cache has room for beside those that the batches in preparation may need; no more than
/// keep the workers busy, or the next window. 0 where looking ahead makes no sense.
std::uint64_t look_ahead_room(const DatasetState& dataset, const ResolvedOptions& options);

/// Batches ahead of the consumer are few, and large chunks hold many of them: workers that have nothing
/// else to do then load, in the order of the plan, the chunks that come after those of the batches in
/// preparation. Thread-safe.
class LookAhead {
 public:
  /// `room_chunks`: so many chunks further at most; 0 = never.
  explicit LookAhead(std::uint64_t room_chunks) : room_chunks_(room_chunks) {}

  /// Batches of `plan` up to `number` are in preparation.
  void advance(std::shared_ptr<const EpochPlan> plan, std::uint64_t number) H5FEED_EXCLUDES(mutex_) {
    if (room_chunks_ == 0) return;
    const std::uint64_t begun = plan->chunks_begun(number);
    const std::uint64_t end = std::min(plan->num_chunks(), begun + room_chunks_);
    const MutexLock lock(mutex_);
    next_ = plan == plan_ ? std::max(next_, begun) : begun;
    begun_ = begun;
    end_ = end;
    std::swap(plan_, plan);  // the old one is destroyed after the lock
  }

  /// A chunk of samples (all its pieces) and where it comes in the order of its plan.
  struct Place {
    std::shared_ptr<const EpochPlan> plan;
    std::uint64_t number = 0;
    std::uint64_t chunk = 0;
  };

  /// The next chunk worth loading; empty when there is none now.
  std::optional<Place> next() H5FEED_EXCLUDES(mutex_) {
    if (room_chunks_ == 0) return std::nullopt;
    const MutexLock lock(mutex_);
    if (next_ >= end_) return std::nullopt;
    const std::uint64_t number = next_++;
    return Place{plan_, number, plan_->chunk_in_order(number)};
  }

  /// Whether no batch in preparation, or before, needs the chunk.
  bool is_ahead(const Place& place) const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return place.plan == plan_ && place.number >= begun_;
  }

 private:
  const std::uint64_t room_chunks_;
  mutable Mutex mutex_;
  std::shared_ptr<const EpochPlan> plan_ H5FEED_GUARDED_BY(mutex_);
  std::uint64_t begun_ H5FEED_GUARDED_BY(mutex_) = 0;  // chunks of batches in preparation or before
  std::uint64_t next_ H5FEED_GUARDED_BY(mutex_) = 0;   // in the order of the plan
  std::uint64_t end_ H5FEED_GUARDED_BY(mutex_) = 0;
};

}  // namespace h5feed
