// SPDX-License-Identifier: Apache-2.0
// Keeps rows of one field for later batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cache/row_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_agenda.hpp"
#include "flow/chunks/row_future.hpp"

namespace h5feed {

/// Translates between batches, which name samples and chunks, and the row cache, which is keyed by turns. If
/// samples span several chunks, each piece is a row of its own. If memory runs out, rows are not kept or not
/// found. Thread-safe.
class RowKeeper {
 public:
  /// Returns whether the row of a sample is not needed in host memory, because a GPU keeps it.
  using OnDevice = std::function<bool(std::uint64_t sample)>;

  /// Keeps at most `samples` samples. `field` and `future` must outlive the keeper. `on_device` may be empty.
  /// Throws std::bad_alloc.
  RowKeeper(const Field& field, const RowFuture& future, std::uint64_t samples, OnDevice on_device);

  /// Takes all rows of the visit, in its order. Returns nullopt if one of them is not held.
  std::optional<RowCache::Lease> take(const BatchJob& job, const Visit& visit) noexcept;

  /// Ends the lease of a served visit: keeps its rows until they are due again, and drops rows that are not
  /// predicted to come again.
  void give_back(const BatchJob& job, const Visit& visit, RowCache::Lease lease) noexcept;

  /// Returns whether `take` would return the rows of the visit.
  bool holds(const BatchJob& job, const Visit& visit) const noexcept;

  /// Returns whether every row of the chunk that is still due is held.
  bool holds_due_rows(std::uint64_t chunk) const noexcept;

  /// Keeps the rows of a decoded chunk that are due soonest, as far as there is room. `bytes` is the decoded
  /// chunk, `served` lists the visits served from it, and `due_times` is a snapshot from before they were
  /// claimed.
  void keep(std::uint64_t chunk, const std::byte* bytes, std::span<const VisitRef> served,
            const RowFuture::DueTimes& due_times) noexcept;

  /// Drops rows filed under turns before `turn`, which no batch will ask for.
  void forget_before(std::uint64_t turn) noexcept { cache_.forget_before(turn * pieces()); }

  /// Memory of the row cache, in bytes.
  std::uint64_t held_bytes() const { return cache_.held_bytes(); }

 private:
  std::uint64_t pieces() const noexcept { return field_.map.pieces(); }
  std::uint64_t key(std::uint64_t turn, std::uint64_t piece) const noexcept {
    return turn * pieces() + piece;
  }
  RowLayout::Rows rows_in(std::uint64_t chunk) const noexcept;
  std::vector<std::uint64_t> keys_of(const BatchJob& job, const Visit& visit) const;

  std::optional<std::uint64_t> due(const RowFuture::DueTimes& due_times, std::uint64_t row,
                                   std::span<const std::uint64_t> served) const;

  const Field& field_;
  const RowFuture& future_;
  const OnDevice on_device_;
  RowCache cache_;
};

}  // namespace h5feed
