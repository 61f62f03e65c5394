// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/row_future.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace h5feed {
namespace {

bool same_order(const RowFuture::Round& a, const RowFuture::Round& b) noexcept {
  return a.plan && b.plan && a.seed == b.seed && a.epoch == b.epoch && a.start == b.start && a.end == b.end;
}

}  // namespace

std::uint64_t RowFuture::turns_of(const Round& round) const noexcept {
  return round.plan ? round.plan->num_batches() * turns_per_batch_ : 0;
}

std::uint64_t RowFuture::claim_turns(const Round& round) {
  return std::exchange(unclaimed_, unclaimed_ + turns_of(round));
}

void RowFuture::issue(Round running, Round next) {
  const MutexLock lock(mutex_);
  const std::uint64_t end = now_.base_ + turns_of(now_.running_);
  const bool again = same_order(running, now_.running_);
  const bool predicted = !again && same_order(running, now_.next_);
  if (!again) now_.base_ = predicted ? now_.next_base_ : claim_turns(running);
  if (!again || !same_order(next, now_.next_)) now_.next_base_ = claim_turns(next);
  // If this round continues the previous one, some batches of the previous one may still be unplanned.
  if (!predicted || now_.base_ != end) {
    now_.planned_end_ = now_.base_;
    planned_.clear();
  }
  now_.running_ = std::move(running);
  now_.next_ = std::move(next);
  now_.end_ = std::max(now_.base_ + turns_of(now_.running_), now_.next_base_ + turns_of(now_.next_));
}

std::uint64_t RowFuture::first_turn(std::uint64_t batch_number) const {
  const MutexLock lock(mutex_);
  return now_.base_ + batch_number * turns_per_batch_;
}

void RowFuture::planned(std::uint64_t first_turn) noexcept {
  const MutexLock lock(mutex_);
  if (!now_.running_.plan || first_turn < now_.planned_end_) return;
  try {
    planned_.insert(first_turn);
  } catch (const std::bad_alloc&) {
    return;
  }
  while (!planned_.empty() && *planned_.begin() == now_.planned_end_) {
    planned_.erase(planned_.begin());
    now_.planned_end_ += turns_per_batch_;
  }
}

RowFuture::DueTimes RowFuture::due_times() const {
  const MutexLock lock(mutex_);
  return now_;
}

// Returns the turn in the running round if that is not past, else in the next one.
template <typename Past>
std::optional<std::uint64_t> RowFuture::DueTimes::due_unless(std::uint64_t sample, const Past& past) const {
  if (running_.plan) {
    const std::optional<std::uint64_t> turn = running_.plan->turn_of(sample);
    if (turn && base_ + *turn >= planned_end_ && !past(base_ + *turn)) return base_ + *turn;
  }
  if (next_.plan) {
    if (const std::optional<std::uint64_t> turn = next_.plan->turn_of(sample)) return next_base_ + *turn;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> RowFuture::DueTimes::due(std::uint64_t sample,
                                                      std::span<const std::uint64_t> served) const {
  return due_unless(sample, [&](std::uint64_t turn) { return std::ranges::binary_search(served, turn); });
}

std::optional<std::uint64_t> RowFuture::DueTimes::due_after(std::uint64_t sample, std::uint64_t after) const {
  return due_unless(sample, [&](std::uint64_t turn) { return turn < after; });
}

}  // namespace h5feed
