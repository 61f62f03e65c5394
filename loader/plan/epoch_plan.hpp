// SPDX-License-Identifier: Apache-2.0
// The plan of an epoch: which samples form which batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/row_layout.hpp"
#include "h5feed/options.hpp"
#include "h5feed/sampler.hpp"
#include "plan/mixture.hpp"
#include "plan/sample_order.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Everything that determines the order of an epoch, except its number.
struct PlanSpec {
  std::uint64_t num_samples = 0;  ///< Samples of the whole dataset, at least 1
  /// Samples of a chunk; ignored if `layout` is set.
  std::uint64_t rows_per_chunk = 1;
  std::optional<RowLayout> layout = {};  ///< Replaces `rows_per_chunk`; needed if chunks differ in height
  Shuffle shuffle;
  std::uint64_t seed = 0;
  /// Samples per batch of one rank, at least 1; with a batch sampler the most it may give.
  std::uint64_t batch_size = 1;
  bool drop_last = false;  ///< Leave out batches that are smaller than `batch_size` on any rank
  /// This rank, less than `world_size`.
  std::uint64_t rank = 0;
  /// Number of ranks, at least 1.
  std::uint64_t world_size = 1;
  /// How samples are assigned to ranks.
  Shard shard = Shard::strided;
  /// Treatment of samples that do not divide evenly among the ranks.
  Uneven uneven = Uneven::exact;
  std::uint64_t start = 0;  ///< Position of the first delivered sample; see `EpochPlan::position_before`
  std::uint64_t end = UINT64_MAX;  ///< End position, above `start`; the epoch may end earlier
  std::shared_ptr<const SampleSubset> subset = {};  ///< The samples that take part; null: all
  /// If set, gives the order instead of `shuffle`; its numbers index `subset` if that is set.
  std::shared_ptr<const Sampler> sampler = {};
  /// If set, gives whole batches instead of `shuffle`, `sampler` and `batch_size`, and needs
  /// `Shard::strided`.
  std::shared_ptr<const BatchSampler> batch_sampler = {};
  /// If set, gives the order: draws from sets of the dataset, each in its own order, or that of `shuffle`.
  /// Excludes samplers and `Shard::by_chunk`; `subset` then has no effect on the order.
  std::shared_ptr<const Mixture> mixture = {};
};

/// Returns a hash of everything that determines the order apart from the seed; saved positions refer to it.
/// Independent of `seed`, `batch_size`, `drop_last`, `rank`, `world_size`, `start` and `end`.
std::uint64_t plan_hash(const PlanSpec& spec);

/// Returns whether a position within an epoch stays valid when batch size or world size change: `strided`
/// with `exact`, without a batch sampler.
bool positions_are_global(const PlanSpec& spec) noexcept;

/// The plan of one epoch: the order of its samples, sharded over the ranks and cut into batches. With n
/// samples, W ranks and batch size B, batch t of rank r holds places [t·B, (t+1)·B) of the sequence of that
/// rank:
///
///   strided     positions r, r + W, r + 2W, … of the global order, so that the t-th batches of all ranks
///               together are positions [t·W·B, (t+1)·W·B)
///   contiguous  a run of ⌈n/W⌉ or ⌊n/W⌋ positions of the global order
///   by_chunk    an order of the samples of the chunks that the rank owns; owners change every epoch
///
/// If W does not divide n, the sequences of the ranks differ in length. With `exact` the last batches of some
/// ranks are then smaller or empty. `pad` repeats samples from the start (of the global order; for by_chunk
/// of the rank's own order). `drop` cuts the longer sequences. In every mode all ranks have the same number
/// of batches.
///
/// A pure function of (spec, epoch) with random access. Immutable and thread-safe. Memory and construction
/// are O(1) for strided and contiguous plans of all samples; O(chunks) for by_chunk, for `chunk:K` of a
/// subset, and, except with `full`, if chunks differ in height.
class EpochPlan {
 public:
  /// Throws OptionError if a sampler returns null, and whatever the sampler throws.
  EpochPlan(const PlanSpec& spec, std::uint64_t epoch);

  /// Number of batches from the start position to the end position; the same on every rank.
  std::uint64_t num_batches() const noexcept;

  /// Returns the samples of batch `number` < num_batches() of this rank, in order. Throws OptionError if a
  /// sampler gives an invalid sample number or a batch sampler an invalid batch size, and whatever the
  /// sampler throws.
  std::vector<std::int64_t> batch(std::uint64_t number) const;

  /// Returns the position at which batch `number` begins: the samples of the plan before it over all ranks
  /// (with a batch sampler: batches). At most `num_positions()`.
  std::uint64_t position_before(std::uint64_t number) const noexcept;
  /// Number of positions of the epoch, at most `PlanSpec::end` (rounded up to a multiple of the world size
  /// unless `positions_are_global`).
  std::uint64_t num_positions() const noexcept;
  /// Number of samples that this rank has in the whole epoch, whatever the start and end positions are; with
  /// a batch sampler the most that its batches may have.
  std::uint64_t samples_in_epoch() const noexcept;
  /// Number of samples from the start position on of the rank that has the fewest; with a batch sampler the
  /// most that its batches may have.
  std::uint64_t fewest_samples() const noexcept {
    return batches_ ? shortest_ * spec_.batch_size : shortest_;
  }
  /// Start position; see `PlanSpec::start`.
  std::uint64_t start() const noexcept { return spec_.start; }
  /// End position; see `PlanSpec::end`.
  std::uint64_t end() const noexcept { return spec_.end; }
  /// Number of the first delivered batch, counted from the beginning of the epoch in batches of the current
  /// size.
  std::uint64_t first_number() const noexcept;

  /// Returns the place in the sequence of this rank, counted from the start position, at which the sample is
  /// delivered. Returns nullopt if it is not delivered or the order cannot tell. For a sample that `pad`
  /// repeats: the first place, or nullopt.
  std::optional<std::uint64_t> turn_of(std::uint64_t sample) const noexcept;

  /// Returns one of the samples that a sampler or batch sampler gave for the epoch, over all ranks: the same
  /// for equal values of `draw`. Returns nullopt without a sampler, or if it gave none. Throws as `batch`.
  std::optional<std::int64_t> sampled_at(std::uint64_t draw) const;

  /// Number of chunks that the order takes samples from; 0 with a batch sampler.
  std::uint64_t num_chunks() const noexcept;
  /// Returns how many chunks, in the order in which the epoch needs them, batches up to and including
  /// `number` may take samples from; 0 with a batch sampler.
  std::uint64_t chunks_begun(std::uint64_t number) const noexcept;
  /// Returns the chunk at `place` of the order in which the epoch needs chunks. Not available with a batch
  /// sampler.
  std::uint64_t chunk_in_order(std::uint64_t place) const noexcept { return order_->chunk_in_order(place); }

 private:
  void set_places(std::uint64_t own, std::uint64_t shortest, std::uint64_t longest) noexcept;
  void cut(std::uint64_t start, std::uint64_t end) noexcept;
  std::uint64_t batch_size() const noexcept { return batches_ ? 1 : spec_.batch_size; }
  std::uint64_t position_at(std::uint64_t place) const noexcept;
  std::uint64_t end_of_places(std::uint64_t place) const noexcept;

  PlanSpec spec_;
  std::shared_ptr<const SampleOrder> order_;     // null with a batch sampler
  std::shared_ptr<const EpochBatches> batches_;  // set with a batch sampler only
  std::uint64_t size_ = 0;                       // positions of the order, or batches of the batch sampler
  std::uint64_t origin_ = 0;                     // position of place 0
  std::uint64_t places_ = 0;                     // length of the sequence of this rank
  std::uint64_t whole_places_ = 0;               // the same of the whole epoch
  std::uint64_t shortest_ = 0;                   // length of the shortest sequence of any rank
  // Length of the longest sequence of any rank.
  std::uint64_t longest_ = 0;
  std::uint64_t start_place_ = 0;  // place of the first delivered sample
};

}  // namespace h5feed
