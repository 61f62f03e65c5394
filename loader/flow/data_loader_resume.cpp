// SPDX-License-Identifier: Apache-2.0
// Saves and restores the position of a run.
#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <numeric>
#include <utility>

#include "flow/data_loader_state.hpp"
#include "flow/resolve/dataset_fingerprint.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {

std::uint64_t DataLoader::State::plan_identity() const { return identity_with(resolved.options.echo_factor); }

// The echo factor is part of the identity because saved positions count the deliveries of an echo.
std::uint64_t DataLoader::State::identity_with(std::int64_t factor) const {
  std::call_once(identity_made, [this] {
    identity = mix_key(dataset_fingerprint(*dataset), kPlanHash, plan_hash(plan_spec()));
  });
  return factor > 1 ? mix_key(identity, kPlanHash, static_cast<std::uint64_t>(factor)) : identity;
}

LoaderState DataLoader::State::state() const {
  if (!resolved.options.in_order) {
    throw OptionError(
        "state() needs in_order = true: otherwise a position does not "
        "determine which samples were delivered");
  }
  if (headroom)
    throw OptionError("state() needs headroom = false: one batch is repeated, and none is trained");
  const Delivering& now = delivering;
  bool within = now.running;
  EpochPlace place;
  if (now.running && now.echo_pending()) {
    place.position = now.plan->position_before(now.delivered - 1);
    place.repeat = now.repeats;
    place.echo_samples = now.plan->position_before(now.delivered) - place.position;
  } else if (now.running && !now.round_taken()) {
    place = now.stretch.place_at(now.plan->position_before(now.delivered));
  } else if (now.running && !now.rest.empty()) {
    place = now.rest.front().place_at(now.rest.front().start);
  } else {
    within = false;
    place = upcoming.stretches.front().place_at(upcoming.stretches.front().start);
  }
  const auto factor = static_cast<std::uint64_t>(resolved.options.echo_factor);
  LoaderState saved{resolved.options.seed, within ? now.epoch : upcoming.epoch,
                    place.position * factor + static_cast<std::uint64_t>(place.repeat), plan_identity(),
                    resolved.options.world_size};
  saved.echo_samples = place.echo_samples;
  saved.echo_ahead = place.echo_ahead;
  return saved;
}

// Throws StateError if the saved hash of dataset, order and echo factor differs from this loader's.
void DataLoader::State::check_identity(const LoaderState& saved) const {
  if (saved.plan == plan_identity()) return;
  for (std::int64_t factor = 1; factor <= kMaxEchoFactor; ++factor) {
    if (saved.plan != identity_with(factor)) continue;
    throw StateError(fmt::format(
        "the saved state is of a run with echo.factor {}, this loader has {}; a position counts deliveries, "
        "restore it with echo.factor = {}",
        factor, resolved.options.echo_factor, factor));
  }
  throw StateError(fmt::format(
      "the saved state is of another dataset, order or sharding (plan {:016x}, this loader's is "
      "{:016x}); open the same data with the same shuffle, sampler, subset, shard, uneven and echo",
      saved.plan, plan_identity()));
}

// Returns the stretches of the epoch that remain from `place` on; at least one. Throws StateError if they
// would leave out samples of an unfinished echo.
std::deque<Stretch> DataLoader::State::stretches_after(const EpochPlace& place, const PlanSpec& spec,
                                                       std::uint64_t of_epoch) const {
  const std::uint64_t unit = batch_sampler ? 1 : spec.batch_size;
  std::deque<Stretch> parts = rest_of_echo(place, resolved.options.echo_factor, unit * spec.world_size);
  PlanSpec part_spec = spec;
  std::uint64_t fits_all = 0;  // a global batch that cuts each part into full ones
  for (const Stretch& part : parts) fits_all = std::gcd(fits_all, part.end - part.start);
  for (const Stretch& part : parts) {
    part_spec.start = part.start;
    part_spec.end = part.end;
    const EpochPlan part_plan(part_spec, of_epoch);
    if (part_plan.position_before(part_plan.num_batches()) == part.end) continue;
    throw StateError(fmt::format(
        "the saved state is inside an echo of {} samples, which batch_size {} with world_size {} "
        "and drop_last does not cut into full batches; use a batch_size × world_size that "
        "divides {}, leave drop_last unset, or save after a multiple of echo.factor {} deliveries",
        place.echo_samples, resolved.options.batch_size, resolved.options.world_size, fits_all,
        resolved.options.echo_factor));
  }
  Stretch last = whole_epoch();
  last.start = place.position + place.echo_samples;
  part_spec.start = last.start;
  part_spec.end = last.end;
  if (parts.empty() || EpochPlan(part_spec, of_epoch).num_batches() > 0) parts.push_back(last);
  return parts;
}

void DataLoader::State::restore(const LoaderState& saved) {
  if (!resolved.options.in_order) throw OptionError("restore() needs in_order = true");
  check_identity(saved);
  PlanSpec spec = plan_spec();
  const bool global = positions_are_global(spec);
  if (saved.position > 0 && !global && saved.world_size != resolved.options.world_size) {
    throw StateError(fmt::format(
        "the state was saved within an epoch with world_size {}; this loader has world_size {}: use shard = "
        "strided with uneven = exact, or a state saved at the start of an epoch",
        saved.world_size, resolved.options.world_size));
  }
  const auto factor = static_cast<std::uint64_t>(resolved.options.echo_factor);
  const EpochPlace place{saved.position / factor, static_cast<std::int64_t>(saved.position % factor),
                         saved.echo_samples, saved.echo_ahead};
  if (place.repeat > 0 && place.echo_samples == 0) {
    throw StateError(
        "the saved state is inside an echo, but its echo_samples is 0; pass a state as state() returned it");
  }
  spec.seed = saved.seed;
  const std::uint64_t positions = EpochPlan(spec, saved.epoch).num_positions();
  const std::uint64_t unit = global ? 1 : spec.world_size;
  if (place.position > positions || place.echo_samples > positions - place.position ||
      (place.echo_samples > 0 && place.echo_ahead >= place.echo_samples) || place.position % unit != 0 ||
      place.echo_samples % unit != 0 || place.echo_ahead % unit != 0) {
    throw StateError(
        fmt::format("the saved state is at position {} of an epoch that has {}", place.position, positions));
  }
  Upcoming restored{saved.epoch, stretches_after(place, spec, saved.epoch)};
  ring.cancel_all();
  // Nothing below throws: the state would be half restored.
  delivering.running = false;
  epoch_clock.stop();
  gpu_window.stop();
  resolved.options.seed = saved.seed;
  upcoming.epoch = restored.epoch;
  upcoming.stretches.swap(restored.stretches);
  delivering.rest.clear();
  delivering.drop_repeats();
  issuing.plan.reset();
  issuing.failed = false;
}

}  // namespace h5feed
