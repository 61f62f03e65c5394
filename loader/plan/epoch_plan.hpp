// Which samples make up which batch of an epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "h5feed/options.hpp"
#include "plan/permutation.hpp"

namespace h5feed {

/// What an order depends on, beside the epoch's number.
struct PlanSpec {
  std::uint64_t num_samples = 0;  ///< at least 1
  std::uint64_t rows_per_chunk = 1;
  Shuffle shuffle;
  std::uint64_t seed = 0;
  std::uint64_t batch_size = 1;  ///< per rank, at least 1
  bool drop_last = false;        ///< leave out batches that are smaller on any rank
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::uint64_t start = 0;  ///< position in the global order where delivery begins
};

/// One epoch. The global order g is a permutation of all samples; with W ranks and batch size B,
/// global batch t is g[start + t·W·B, start + (t+1)·W·B), of which rank r takes the positions ≡ r
/// mod W. Every rank has the same number of batches; the last may be smaller, even empty.
///
/// A pure function of (spec, epoch) with random access: O(1) memory and construction, immutable,
/// thread-safe. The order is part of the public contract: golden vectors in the tests pin it.
class EpochPlan {
 public:
  EpochPlan(const PlanSpec& spec, std::uint64_t epoch);

  /// Batches of the epoch, for every rank.
  std::uint64_t num_batches() const noexcept;

  /// The samples of batch `number` on this rank, in batch order.
  std::vector<std::int64_t> batch(std::uint64_t number) const;

  /// The inverse of `batch`: batch number · batch_size + place in the batch at which this rank delivers
  /// `sample`. Empty where it does not: another rank's, before `start`, or left out by `drop_last`.
  std::optional<std::uint64_t> turn_of(std::uint64_t sample) const noexcept;

  /// Where batch `number` ends in the global order, on all ranks.
  std::uint64_t end_of_batch(std::uint64_t number) const noexcept;

  /// Chunks of `rows_per_chunk` samples.
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// How many chunks, in the order in which the epoch needs them, positions before `position` may take
  /// samples from: all but none for a full shuffle.
  std::uint64_t chunks_before(std::uint64_t position) const noexcept;
  /// The chunk at `place` of that order. For `sequential` and `chunk:K`.
  std::uint64_t chunk_in_order(std::uint64_t place) const noexcept;

  /// g[position], the sample at a position of the global order.
  std::uint64_t sample_at(std::uint64_t position) const noexcept;

 private:
  struct Place {
    std::uint64_t full_position;  // as if no row were missing
    std::uint64_t window;
  };
  Place place_of(std::uint64_t position) const noexcept;
  std::uint64_t short_window() const noexcept;  // the one with the short chunk
  Permutation window_order(std::uint64_t window) const noexcept;
  std::uint64_t in_window(std::uint64_t position) const noexcept;
  std::uint64_t position_of(std::uint64_t sample) const noexcept;

  PlanSpec spec_;
  std::uint64_t epoch_;
  std::uint64_t num_chunks_;
  std::uint64_t window_rows_;         // rows of a window of K full chunks
  std::uint64_t missing_rows_;        // rows that the dataset's last chunk lacks
  Permutation order_;                 // of samples (full) or of chunks (chunk:K)
  std::uint64_t short_position_ = 0;  // chunk:K: position of the last, maybe short, chunk among the chunks
};

}  // namespace h5feed
