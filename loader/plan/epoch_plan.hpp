// Which samples make up which batch of an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/row_layout.hpp"
#include "h5feed/options.hpp"
#include "h5feed/sampler.hpp"
#include "plan/sample_order.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// What an order depends on, beside the epoch's number.
struct PlanSpec {
  std::uint64_t num_samples = 0;  ///< of the dataset, at least 1
  std::uint64_t rows_per_chunk = 1;
  std::optional<RowLayout> layout = {};  ///< where chunks differ in height; replaces `rows_per_chunk`
  Shuffle shuffle;
  std::uint64_t seed = 0;
  std::uint64_t batch_size = 1;  ///< per rank, at least 1; of a batch sampler the largest it may give
  bool drop_last = false;        ///< leave out batches that are smaller on any rank
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  Shard shard = Shard::strided;
  Uneven uneven = Uneven::exact;
  std::uint64_t start = 0;         ///< position where delivery begins; see `EpochPlan::position_before`
  std::uint64_t end = UINT64_MAX;  ///< and where it ends, unless the epoch ends before; above `start`
  std::shared_ptr<const SampleSubset> subset = {};         ///< null: all samples
  std::shared_ptr<const Sampler> sampler = {};             ///< replaces `shuffle`
  std::shared_ptr<const BatchSampler> batch_sampler = {};  ///< replaces all of the above
};

/// A number that is equal for specs with the same orders: what a saved position refers to. Start and end, and
/// what `strided` with `exact` is free of (batch size, rank, world size), do not change it.
std::uint64_t plan_hash(const PlanSpec& spec);

/// Whether a position within an epoch means the same for another batch size and world size.
bool positions_are_global(const PlanSpec& spec) noexcept;

/// One epoch: the order of its samples, dealt to the ranks, cut into batches. With n samples, W ranks
/// and batch size B, batch t of rank r is made of the places [t·B, (t+1)·B) of the rank's own sequence:
///
///   strided     positions r, r + W, r + 2W, … of the global order, so that the t-th batches of all ranks
///               together are the positions [t·W·B, (t+1)·W·B)
///   contiguous  a run of ⌈n/W⌉ or ⌊n/W⌋ positions of the global order
///   by_chunk    an order of the samples of its own chunks, which change hands every epoch
///
/// Ranks have sequences of different lengths where W does not divide n. `exact` leaves it so, and ranks
/// deliver smaller, even empty, last batches; `pad` repeats from the start (of the global order; by_chunk: of
/// its own), `drop` cuts. The number of batches is the same on every rank in every mode.
///
/// A pure function of (spec, epoch) with random access; immutable and thread-safe. O(1) memory and
/// construction for all samples strided or contiguous; O(chunks) for by_chunk, for `chunk:K` of a subset, and
/// where chunks differ in height (but for `full`).
class EpochPlan {
 public:
  /// Throws what a user's sampler throws.
  EpochPlan(const PlanSpec& spec, std::uint64_t epoch);

  /// Batches of the epoch from the start position to the end position, for every rank.
  std::uint64_t num_batches() const noexcept;

  /// The samples of batch `number` on this rank, in batch order. Throws OptionError for what a user's sampler
  /// gives wrongly, and what it throws.
  std::vector<std::int64_t> batch(std::uint64_t number) const;

  /// A position within the epoch: plan samples before batch `number`, over all ranks (with a batch sampler:
  /// batches). At most `num_positions()`, which does not exceed `PlanSpec::end`.
  std::uint64_t position_before(std::uint64_t number) const noexcept;
  std::uint64_t num_positions() const noexcept;
  std::uint64_t start() const noexcept { return spec_.start; }
  std::uint64_t end() const noexcept { return spec_.end; }
  /// The number of the first batch, counted from the epoch's begin in batches of the present size.
  std::uint64_t first_number() const noexcept;

  /// The place in this rank's sequence, counted from the start position, at which a sample is delivered;
  /// empty where it is not, or the order cannot tell. For a sample that `pad` repeats, the first
  /// or none.
  std::optional<std::uint64_t> turn_of(std::uint64_t sample) const noexcept;

  /// What looking ahead by chunks needs: chunks of `rows_per_chunk` samples that the order takes samples
  /// from; how many of them, in the order in which they are needed, batches up to `number` begin; and the
  /// chunk at a place of that order.
  std::uint64_t num_chunks() const noexcept;
  std::uint64_t chunks_begun(std::uint64_t number) const noexcept;
  std::uint64_t chunk_in_order(std::uint64_t place) const noexcept { return order_->chunk_in_order(place); }

 private:
  void deal(std::uint64_t own, std::uint64_t shortest, std::uint64_t longest) noexcept;
  void cut(std::uint64_t start, std::uint64_t end) noexcept;
  std::uint64_t batch_size() const noexcept { return batches_ ? 1 : spec_.batch_size; }
  std::uint64_t position_at(std::uint64_t place) const noexcept;
  std::uint64_t end_of_places(std::uint64_t place) const noexcept;

  PlanSpec spec_;
  std::shared_ptr<const SampleOrder> order_;     // null with a batch sampler
  std::shared_ptr<const EpochBatches> batches_;  // only with a batch sampler
  std::uint64_t size_ = 0;                       // positions of the order, or batches of the batch sampler
  std::uint64_t origin_ = 0;                     // position from which places are counted
  std::uint64_t places_ = 0;                     // length of this rank's sequence
  std::uint64_t shortest_ = 0;                   // of any rank
  std::uint64_t longest_ = 0;
  std::uint64_t start_place_ = 0;  // where delivery begins
};

}  // namespace h5feed
