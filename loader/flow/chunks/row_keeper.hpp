// SPDX-License-Identifier: Apache-2.0
// The rows of one field that are kept for the batches to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/row_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_agenda.hpp"
#include "flow/chunks/row_future.hpp"

namespace h5feed {

/// Between batches, which speak of samples and chunks, and the cache of rows, which speaks of turns. Where
/// samples span several chunks, each of their pieces is a row of its own. What finds no memory is not kept,
/// or not found. Thread-safe.
class RowKeeper {
 public:
  /// Keeps at most `samples` samples. `field` and `future` outlive it. Throws std::bad_alloc.
  RowKeeper(const Field& field, const RowFuture& future, std::uint64_t samples);

  /// All rows of the visit, in its order, or none.
  std::optional<RowCache::Lease> take(const BatchJob& job, const Visit& visit) noexcept;

  /// Ends the lease of a visit that has been served: its rows are kept for when they are due next.
  void give_back(const BatchJob& job, const Visit& visit, RowCache::Lease lease) noexcept;

  /// Whether `take` would find the rows of the visit.
  bool holds(const BatchJob& job, const Visit& visit) const noexcept;

  /// Whether all rows of the chunk that are still to be served are held.
  bool holds_due_rows(std::uint64_t chunk) const noexcept;

  /// Of a decoded chunk, keeps the rows that are due soonest, as far as there is room. `served`: its visits
  /// that have been served from it; `due_times`: from before they were claimed.
  void keep(std::uint64_t chunk, const std::byte* bytes, std::span<const VisitRef> served,
            const RowFuture::DueTimes& due_times) noexcept;

  /// Turns before `turn` will not be asked for any more.
  void forget_before(std::uint64_t turn) noexcept { cache_.forget_before(turn * pieces()); }

  std::uint64_t held_bytes() const { return cache_.held_bytes(); }

 private:
  std::uint64_t pieces() const noexcept { return field_.map.pieces(); }
  std::uint64_t key(std::uint64_t turn, std::uint64_t piece) const noexcept {
    return turn * pieces() + piece;
  }
  RowLayout::Rows rows_in(std::uint64_t chunk) const noexcept;
  std::vector<std::uint64_t> keys_of(const BatchJob& job, const Visit& visit) const;

  const Field& field_;
  const RowFuture& future_;
  RowCache cache_;
};

}  // namespace h5feed
