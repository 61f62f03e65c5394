// SPDX-License-Identifier: Apache-2.0
// Where a loader stands: what it delivers, what it issues, and what comes next.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "flow/stretch.hpp"
#include "h5feed/batch.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// The round that the consumer takes batches from. A round is one pass through a stretch, which usually is a
/// whole epoch. Epoch numbers may repeat, round numbers do not. While `running`, `plan` is the plan of
/// `stretch`, of which `delivered` batches were taken; `rest` follows in the same epoch. `repeats` is 0, or
/// above `first_repeat` and at most `stretch.end_repeat`; the difference is still to be delivered.
struct Delivering {
  bool running = false;                   ///< A round is being delivered
  std::uint64_t round = 0;                ///< Number of the running or last round; the first is 1
  std::uint64_t epoch = 0;                ///< Epoch of `round`
  Stretch stretch;                        ///< Positions of `round`
  std::shared_ptr<const EpochPlan> plan;  ///< Plan of `stretch`; null before the first round
  std::deque<Stretch> rest;               ///< Stretches of the running epoch after `stretch`
  std::uint64_t delivered = 0;    ///< Batches taken in `round`, including failed ones, excluding repeats
  std::uint64_t bad_samples = 0;  ///< Samples of the running epoch that were left out or replaced
  std::uint64_t taken = 0;        ///< Batches taken in all rounds, excluding repeats
  std::int64_t repeats = 0;       ///< Deliveries of the current batch so far; 0 if there is none to repeat
  std::int64_t first_repeat = 0;  ///< Deliveries of the current batch before the run was resumed
  std::vector<Batch> echoes;      ///< CPU: pending repeats of the current batch, in reverse order
  Batch echo_like;                ///< GPU: the current batch without memory, template for its repeats

  /// Resets the progress to the beginning of `part`, whose plan is `of_part`. `round`, `epoch` and `running`
  /// are set by the caller.
  void begin_stretch(const Stretch& part, std::shared_ptr<const EpochPlan> of_part) {
    stretch = part;
    plan = std::move(of_part);
    delivered = 0;
    drop_repeats();
  }
  /// Drops the pending repeats of the current batch and their memory.
  void drop_repeats() {
    repeats = 0;
    echoes.clear();
    echo_like = {};
  }
  /// Returns whether the current batch has repeats left to deliver.
  bool echo_pending() const noexcept { return repeats > 0 && repeats < stretch.end_repeat; }
  /// Returns whether every batch of the round was taken.
  bool round_taken() const noexcept { return delivered == plan->num_batches(); }
};

/// The round that jobs are issued for: the running one, or the one after it, ahead of the consumer. While
/// `plan` is set, it is the plan of `stretch` in `epoch`, and its batches before `number` are issued.
struct Issuing {
  std::uint64_t ticket = 0;  ///< Ticket of the next job; counts jobs of all rounds
  std::uint64_t round = 0;   ///< Round of the next job
  std::uint64_t epoch = 0;   ///< Epoch of the next job
  std::uint64_t number = 0;  ///< Batch number of the next job in `plan`
  Stretch stretch;           ///< Stretch of the next job
  std::shared_ptr<const EpochPlan>
      plan;             ///< Plan of `stretch`; null before the first round and once restored
  bool failed = false;  ///< The round ahead could not be issued, and is not tried again

  /// Makes `part` of `of_epoch` with plan `of_part` the source of the next jobs, which belong to `in_round`.
  void start(const Stretch& part, std::uint64_t of_epoch, std::shared_ptr<const EpochPlan> of_part,
             std::uint64_t in_round) {
    round = in_round;
    epoch = of_epoch;
    number = 0;
    stretch = part;
    plan = std::move(of_part);
  }
  /// Returns whether every batch of the round was issued.
  bool round_issued() const noexcept { return number == plan->num_batches(); }
  /// Returns whether the jobs are those of `part` of `of_epoch`.
  bool is_of(const Stretch& part, std::uint64_t of_epoch) const noexcept {
    return epoch == of_epoch && stretch == part;
  }
};

/// The epoch that the consumer starts next. It has at least one stretch: the whole epoch, or what a restored
/// state left of it.
struct Upcoming {
  std::uint64_t epoch = 0;
  std::deque<Stretch> stretches;  ///< In order

  /// Selects all of epoch `number`; `whole` covers an epoch with all its repeats.
  void select(std::uint64_t number, const Stretch& whole) {
    epoch = number;
    stretches = {whole};
  }
};

}  // namespace h5feed
