// SPDX-License-Identifier: Apache-2.0
// Chooses chunks to load for batches that are not yet in preparation.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Returns how many chunks may be loaded ahead by `num_workers` workers while `prefetch_batches` batches are
/// in preparation, instead of the numbers in `options`: at most those that fit the cache in addition to the
/// chunks of batches in preparation, and at most those that keep the workers busy, or one window. 0 if
/// looking ahead does not pay off.
std::uint64_t look_ahead_room(const DatasetState& dataset, const ResolvedOptions& options,
                              std::int64_t num_workers, std::uint64_t prefetch_batches);

/// Chooses the chunks that idle workers load, in the order of the plan, after those of the batches in
/// preparation: few batches are prepared ahead of the consumer, and a large chunk holds many of them.
/// Thread-safe.
class LookAhead {
 public:
  /// Looks at most `room_chunks` chunks ahead; 0 disables looking ahead.
  explicit LookAhead(std::uint64_t room_chunks) : room_chunks_(room_chunks) {}

  /// Looks at most `room_chunks` chunks ahead from the next `advance` on.
  void set_room(std::uint64_t room_chunks) noexcept {
    room_chunks_.store(room_chunks, std::memory_order_relaxed);
  }

  /// Records that the batches of `plan` up to `number` are in preparation.
  void advance(std::shared_ptr<const EpochPlan> plan, std::uint64_t number) H5FEED_EXCLUDES(mutex_) {
    const std::uint64_t room = room_chunks_.load(std::memory_order_relaxed);
    if (room == 0) return;
    const std::uint64_t begun = plan->chunks_begun(number);
    const std::uint64_t end = std::min(plan->num_chunks(), begun + room);
    const MutexLock lock(mutex_);
    next_ = plan == plan_ ? std::max(next_, begun) : begun;
    begun_ = begun;
    end_ = end;
    std::swap(plan_, plan);  // the old one is destroyed after the lock
  }

  /// A chunk of samples (all its pieces) and its position in the order of its plan.
  struct Place {
    std::shared_ptr<const EpochPlan> plan;
    std::uint64_t number = 0;
    std::uint64_t chunk = 0;
  };

  /// Returns the next chunk worth loading; nullopt if there is none now.
  std::optional<Place> next() H5FEED_EXCLUDES(mutex_) {
    if (room_chunks_.load(std::memory_order_relaxed) == 0) return std::nullopt;
    const MutexLock lock(mutex_);
    if (next_ >= end_) return std::nullopt;
    const std::uint64_t number = next_++;
    return Place{plan_, number, plan_->chunk_in_order(number)};
  }

  /// Returns whether no batch in preparation, or before, needs the chunk.
  bool is_ahead(const Place& place) const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return place.plan == plan_ && place.number >= begun_;
  }

 private:
  std::atomic<std::uint64_t> room_chunks_;
  mutable Mutex mutex_;
  std::shared_ptr<const EpochPlan> plan_ H5FEED_GUARDED_BY(mutex_);
  std::uint64_t begun_ H5FEED_GUARDED_BY(mutex_) = 0;  // number of chunks of batches in preparation or before
  std::uint64_t next_ H5FEED_GUARDED_BY(mutex_) = 0;   // next position in the order of the plan
  std::uint64_t end_ H5FEED_GUARDED_BY(mutex_) = 0;
};

}  // namespace h5feed
