// SPDX-License-Identifier: Apache-2.0
#include "plan/epoch_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "h5feed/error.hpp"
#include "plan/divide.hpp"
#include "plan/group_order.hpp"
#include "plan/listed_order.hpp"
#include "plan/mixture_order.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"
#include "plan/whole_order.hpp"

namespace h5feed {
namespace {

// Number of samples that take part.
std::uint64_t num_choices(const PlanSpec& spec) noexcept {
  return spec.subset ? spec.subset->size() : spec.num_samples;
}

RowLayout layout_of(const PlanSpec& spec) {
  return spec.layout ? *spec.layout : RowLayout(spec.num_samples, spec.rows_per_chunk);
}

// Returns the global order of all samples.
std::shared_ptr<const SampleOrder> whole_order(const PlanSpec& spec, std::uint64_t epoch) {
  const RowLayout layout = layout_of(spec);
  if (layout.regular() || spec.shuffle.kind() == Shuffle::Kind::full) {
    // A full shuffle does not depend on chunks; only their number is needed, and approximately.
    const std::uint64_t rows =
        layout.regular() ? layout.rows_per_chunk() : ceil_div(spec.num_samples, layout.num_chunks());
    return std::make_shared<const WholeOrder>(spec.num_samples, rows, spec.shuffle, spec.seed, epoch);
  }
  return std::make_shared<const GroupOrder>(chunk_groups(layout, nullptr), nullptr, layout, spec.shuffle,
                                            mix_key(spec.seed, kChunkOrder, epoch));
}

std::shared_ptr<const SampleOrder> global_order(const PlanSpec& spec, std::uint64_t epoch);

// Returns the order of a mixture, whose sets are ordered like datasets with seeds of their own.
std::shared_ptr<const SampleOrder> mixture_order(const PlanSpec& spec, std::uint64_t epoch) {
  const auto order_of_set = [mixture = spec.mixture, shuffle = spec.shuffle, seed = spec.seed, epoch](
                                std::size_t number, std::uint64_t pass) {
    const MixtureSet& set = mixture->sets()[number];
    return global_order({.num_samples = set.layout.num_rows(),
                         .layout = set.layout,
                         .shuffle = set.shuffle.value_or(shuffle),
                         .seed = mix_key(mix_key(seed, kMixtureSet, number), kMixtureSet, pass),
                         .subset = set.subset},
                        epoch);
  };
  return std::make_shared<const MixtureOrder>(spec.mixture, layout_of(spec).num_chunks(),
                                              mix_key(spec.seed, kMixtureOrder, epoch), order_of_set);
}

// Returns the order of all participating samples, the same on every rank.
std::shared_ptr<const SampleOrder> global_order(const PlanSpec& spec, std::uint64_t epoch) {
  if (spec.mixture) return mixture_order(spec, epoch);
  const RowLayout layout = layout_of(spec);
  const std::uint64_t num_chunks = layout.num_chunks();
  if (spec.sampler) {
    return std::make_shared<const SamplerOrder>(epoch_of(*spec.sampler, spec.seed, epoch), spec.subset,
                                                num_choices(spec), num_chunks);
  }
  if (!spec.subset) return whole_order(spec, epoch);
  const Shuffle::Kind kind = spec.shuffle.kind();
  const std::uint64_t key = mix_key(spec.seed, kSubsetOrder, epoch);
  if (kind == Shuffle::Kind::full) return std::make_shared<const PermutedOrder>(spec.subset, num_chunks, key);
  if (kind == Shuffle::Kind::sequential && !spec.subset->ascending())
    return std::make_shared<const GivenOrder>(spec.subset, num_chunks);
  return std::make_shared<const GroupOrder>(chunk_groups(layout, spec.subset.get()), spec.subset, layout,
                                            spec.shuffle, key);
}

// The chunks that this rank owns in an epoch: permuted chunks are assigned round-robin once, and every epoch
// each assignment moves to the next rank.
struct OwnChunks {
  std::vector<ChunkGroup> groups;  // owned by this rank
  // Samples in `groups`.
  std::uint64_t rows = 0;
  std::uint64_t fewest_rows = 0;  // minimum over ranks
  // Maximum over ranks.
  std::uint64_t most_rows = 0;
};

OwnChunks own_chunks(const PlanSpec& spec, std::uint64_t epoch) {
  const RowLayout layout = layout_of(spec);
  std::vector<ChunkGroup> chosen;
  if (spec.subset) chosen = chunk_groups(layout, spec.subset.get());
  const std::uint64_t groups = spec.subset ? chosen.size() : layout.num_chunks();
  const Permutation turns(groups, mix_key(spec.seed, kChunkOwner, 0));
  std::vector<std::uint64_t> rows(spec.world_size, 0);
  OwnChunks own;
  for (std::uint64_t number = 0; number < groups; ++number) {
    const ChunkGroup group = spec.subset ? chosen[number] : whole_chunk(layout, number);
    const std::uint64_t owner = (turns.position_of(number) + epoch % spec.world_size) % spec.world_size;
    rows[owner] += group.count;
    if (owner == spec.rank) own.groups.push_back(group);
  }
  const auto [fewest, most] = std::ranges::minmax(rows);
  own.rows = rows[spec.rank];
  own.fewest_rows = fewest;
  own.most_rows = most;
  return own;
}

}  // namespace

bool positions_are_global(const PlanSpec& spec) noexcept {
  return !spec.batch_sampler && spec.shard == Shard::strided && spec.uneven == Uneven::exact;
}

std::uint64_t plan_hash(const PlanSpec& spec) {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t value) { hash = mix_key(hash, kPlanHash, value); };
  add(spec.num_samples);
  add(spec.subset ? spec.subset->fingerprint() : 0);
  const auto kind = static_cast<std::uint64_t>(spec.shuffle.kind());
  add(spec.batch_sampler ? 101 : spec.sampler ? 100 : kind);
  if (spec.sampler) add(spec.sampler->fingerprint());
  if (spec.batch_sampler) add(spec.batch_sampler->fingerprint());
  if (spec.mixture) add(spec.mixture->fingerprint());
  add(spec.shuffle.window_chunks());
  const bool chunks_matter = spec.shuffle.kind() == Shuffle::Kind::chunk || spec.shard == Shard::by_chunk;
  add(!chunks_matter                           ? 0
      : spec.layout && !spec.layout->regular() ? spec.layout->fingerprint()
                                               : layout_of(spec).rows_per_chunk());
  add(static_cast<std::uint64_t>(spec.shard));
  add(static_cast<std::uint64_t>(spec.uneven));
  return hash;
}

EpochPlan::EpochPlan(const PlanSpec& spec, std::uint64_t epoch) : spec_(spec) {
  const std::uint64_t ranks = spec.world_size;
  if (!spec.batch_sampler && spec.shard == Shard::by_chunk) {
    OwnChunks own = own_chunks(spec, epoch);
    const std::uint64_t key = mix_key(mix_key(spec.seed, kOwnOrder, epoch), kOwnOrder, spec.rank);
    order_ = std::make_shared<const GroupOrder>(std::move(own.groups), spec.subset, layout_of(spec),
                                                spec.shuffle, key);
    size_ = order_->size();
    set_places(size_, own.fewest_rows, own.most_rows);
  } else {
    if (spec.batch_sampler) {
      batches_ = epoch_of(*spec.batch_sampler, spec.seed, epoch);
      size_ = batches_->size();
    } else {
      order_ = global_order(spec, epoch);
      size_ = order_->size();
    }
    const std::uint64_t all = size_;
    // If positions are global, the rest of the order after the start position is sharded again from place 0,
    // so that a resumed epoch may use another world size.
    if (positions_are_global(spec)) {
      size_ = std::min(size_, spec.end);
      origin_ = std::min(spec.start, size_);
    }
    const std::uint64_t left = size_ - origin_;
    const std::uint64_t shorter = left / ranks;
    const std::uint64_t longer_ranks = left % ranks;
    set_places(shorter + (spec.rank < longer_ranks ? 1 : 0), shorter, ceil_div(left, ranks));
    if (positions_are_global(spec)) whole_places_ = all / ranks + (spec.rank < all % ranks ? 1 : 0);
    if (spec.shard == Shard::contiguous) {
      origin_ = spec.uneven == Uneven::exact ? spec.rank * shorter + std::min(spec.rank, longer_ranks)
                                             : spec.rank * longest_;
    }
  }
  if (!positions_are_global(spec)) {
    whole_places_ = places_;
    cut(spec.start / ranks, ceil_div(spec.end, ranks));
  }
}

// Keeps places [start, end) of sequences that were sharded from the beginning of the epoch.
void EpochPlan::cut(std::uint64_t start, std::uint64_t end) noexcept {
  start_place_ = start;
  places_ = std::min(places_, end);
  shortest_ = std::min(shortest_, end);
  longest_ = std::min(longest_, end);
}

void EpochPlan::set_places(std::uint64_t own, std::uint64_t shortest, std::uint64_t longest) noexcept {
  places_ = own;
  shortest_ = shortest;
  longest_ = longest;
  if (spec_.uneven == Uneven::pad) places_ = shortest_ = longest;
  if (spec_.uneven == Uneven::drop) places_ = longest_ = shortest;
  if (size_ == 0) places_ = 0;  // nothing to repeat
}

std::uint64_t EpochPlan::samples_in_epoch() const noexcept {
  return batches_ ? whole_places_ * spec_.batch_size : whole_places_;
}

std::uint64_t EpochPlan::num_batches() const noexcept {
  const std::uint64_t end = spec_.drop_last ? shortest_ : longest_;
  const std::uint64_t left = end - std::min(start_place_, end);
  return spec_.drop_last ? left / batch_size() : ceil_div(left, batch_size());
}

std::vector<std::int64_t> EpochPlan::batch(std::uint64_t number) const {
  const std::uint64_t begin = start_place_ + number * batch_size();
  const std::uint64_t end = end_of_places(begin);
  std::vector<std::int64_t> samples;
  if (batches_) {
    if (begin == end) return samples;
    samples = batches_->at(position_at(begin));
    const std::uint64_t most = spec_.batch_size;
    if (samples.size() > most || samples.empty()) {
      throw OptionError(fmt::format("the batch sampler gave a batch of {} samples; it must have 1 to {}",
                                    samples.size(), most));
    }
    for (std::int64_t& sample : samples) {
      sample = static_cast<std::int64_t>(sampled(sample, num_choices(spec_), spec_.subset.get()));
    }
    return samples;
  }
  samples.reserve(end - begin);
  for (std::uint64_t place = begin; place < end; ++place)
    samples.push_back(static_cast<std::int64_t>(order_->at(position_at(place))));
  return samples;
}

// Returns the end of the batch that begins at `place`. The batch is empty if the sequence of this rank is
// shorter.
std::uint64_t EpochPlan::end_of_places(std::uint64_t place) const noexcept {
  return std::max(place, std::min(place + batch_size(), places_));
}

std::uint64_t EpochPlan::position_at(std::uint64_t place) const noexcept {
  const bool strided = batches_ || spec_.shard == Shard::strided;
  const std::uint64_t position = origin_ + (strided ? place * spec_.world_size + spec_.rank : place);
  return position < size_ ? position : position % size_;
}

std::uint64_t EpochPlan::num_positions() const noexcept {
  return positions_are_global(spec_) ? size_ : longest_ * spec_.world_size;
}

std::uint64_t EpochPlan::position_before(std::uint64_t number) const noexcept {
  const std::uint64_t begun = positions_are_global(spec_) ? spec_.start : start_place_ * spec_.world_size;
  return std::min(begun + number * batch_size() * spec_.world_size, num_positions());
}

std::uint64_t EpochPlan::first_number() const noexcept {
  return ceil_div(spec_.start, batch_size() * spec_.world_size);
}

std::optional<std::uint64_t> EpochPlan::turn_of(std::uint64_t sample) const noexcept {
  if (batches_ || places_ == 0) return std::nullopt;
  const std::optional<std::uint64_t> position = order_->position_of(sample);
  if (!position) return std::nullopt;
  std::uint64_t place = *position;
  if (spec_.shard == Shard::strided) {
    if (place < origin_ || (place - origin_) % spec_.world_size != spec_.rank) return std::nullopt;
    place = (place - origin_) / spec_.world_size;
  } else if (spec_.shard == Shard::contiguous) {
    place = (place + size_ - origin_ % size_) % size_;
  }
  if (place < start_place_ || place >= places_) return std::nullopt;
  const std::uint64_t turn = place - start_place_;
  if (turn >= num_batches() * batch_size()) return std::nullopt;
  return turn;
}

std::optional<std::int64_t> EpochPlan::sampled_at(std::uint64_t draw) const {
  if (batches_) {
    const std::uint64_t batches = batches_->size();
    if (batches == 0) return std::nullopt;
    const std::vector<std::int64_t> samples = batches_->at(draw % batches);
    if (samples.empty()) return std::nullopt;
    const std::int64_t sample = samples[draw / batches % samples.size()];
    return static_cast<std::int64_t>(sampled(sample, num_choices(spec_), spec_.subset.get()));
  }
  if (!spec_.sampler || order_->size() == 0) return std::nullopt;
  return static_cast<std::int64_t>(order_->at(draw % order_->size()));
}

std::uint64_t EpochPlan::num_chunks() const noexcept {
  if (batches_ || size_ == 0) return 0;
  if (spec_.shard == Shard::contiguous) return order_->chunks_before(std::min(origin_ + places_, size_));
  return order_->num_chunks();
}

std::uint64_t EpochPlan::chunks_begun(std::uint64_t number) const noexcept {
  if (batches_ || size_ == 0) return 0;
  const std::uint64_t places = start_place_ + (number + 1) * batch_size();
  const std::uint64_t positions = spec_.shard == Shard::strided ? places * spec_.world_size : places;
  return order_->chunks_before(std::min(origin_ + positions, size_));
}

}  // namespace h5feed
