// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/row_keeper.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace h5feed {
namespace {

std::span<const RowAt> rows_of(const BatchJob& job, const Visit& visit) noexcept {
  return std::span(job.rows[visit.field]).subspan(visit.first_row, visit.num_rows);
}

std::uint32_t slots(std::uint64_t samples, const Field& field) noexcept {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(
      std::min(kMost, std::min(samples, field.info().rows()) * field.map.pieces()));
}

}  // namespace

RowKeeper::RowKeeper(const Field& field, const RowFuture& future, std::uint64_t samples, OnDevice on_device)
    : field_(field),
      future_(future),
      on_device_(std::move(on_device)),
      cache_(field.map.chunk_row_bytes(), slots(samples, field)) {}

// Returns the turn at which a row is due next; nullopt if it is not.
std::optional<std::uint64_t> RowKeeper::due(const RowFuture::DueTimes& due_times, std::uint64_t row,
                                            std::span<const std::uint64_t> served) const {
  if (on_device_ && on_device_(row)) return std::nullopt;
  return due_times.due(row, served);
}

RowLayout::Rows RowKeeper::rows_in(std::uint64_t chunk) const noexcept {
  return field_.map.rows().rows_of(chunk / pieces());
}

std::vector<std::uint64_t> RowKeeper::keys_of(const BatchJob& job, const Visit& visit) const {
  std::vector<std::uint64_t> keys;
  keys.reserve(visit.num_rows);
  for (const RowAt& at : rows_of(job, visit)) {
    const std::optional<std::uint64_t> turn = job.turn_of(at.position);
    keys.push_back(turn ? key(*turn, visit.piece) : RowCache::kNever);
  }
  return keys;
}

std::optional<RowCache::Lease> RowKeeper::take(const BatchJob& job, const Visit& visit) noexcept try {
  return cache_.take(keys_of(job, visit));
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

void RowKeeper::give_back(const BatchJob& job, const Visit& visit, RowCache::Lease lease) noexcept try {
  const RowFuture::DueTimes due_times = future_.due_times();
  std::vector<std::uint64_t> keys;
  keys.reserve(visit.num_rows);
  for (const RowAt& at : rows_of(job, visit)) {
    const std::uint64_t served = job.turn_of(at.position).value_or(0);  // rows without a turn are not kept
    const std::optional<std::uint64_t> turn = due(due_times, at.row, std::span(&served, 1));
    keys.push_back(turn ? key(*turn, visit.piece) : RowCache::kNever);
  }
  std::move(lease).give_back(keys);
} catch (const std::bad_alloc&) {
  // The lease drops the rows.
}

bool RowKeeper::holds(const BatchJob& job, const Visit& visit) const noexcept try {
  return cache_.contains(keys_of(job, visit));
} catch (const std::bad_alloc&) {
  return false;
}

bool RowKeeper::holds_due_rows(std::uint64_t chunk) const noexcept try {
  const RowFuture::DueTimes due_times = future_.due_times();
  const RowLayout::Rows rows = rows_in(chunk);
  std::vector<std::uint64_t> keys;
  keys.reserve(rows.end - rows.first);
  for (std::uint64_t row = rows.first; row < rows.end; ++row) {
    if (const auto turn = due(due_times, row, {})) keys.push_back(key(*turn, chunk % pieces()));
  }
  return cache_.contains(keys);
} catch (const std::bad_alloc&) {
  return false;
}

void RowKeeper::keep(std::uint64_t chunk, const std::byte* bytes, std::span<const VisitRef> served,
                     const RowFuture::DueTimes& due_times) noexcept try {
  const std::uint64_t piece = chunk % pieces();
  std::vector<std::uint64_t> turns;
  std::vector<std::uint64_t> keys;
  for (const VisitRef& ref : served) {
    for (const RowAt& at : rows_of(*ref.job, ref.visit())) {
      if (const auto turn = ref.job->turn_of(at.position)) turns.push_back(*turn);
    }
  }
  std::ranges::sort(turns);
  keys.reserve(turns.size());
  for (const std::uint64_t turn : turns) keys.push_back(key(turn, piece));
  cache_.drop(keys);

  const RowLayout::Rows rows = rows_in(chunk);
  std::vector<RowCache::Candidate> candidates;
  candidates.reserve(rows.end - rows.first);
  for (std::uint64_t row = rows.first; row < rows.end; ++row) {
    const std::optional<std::uint64_t> turn = due(due_times, row, turns);
    if (turn) candidates.push_back({key(*turn, piece), field_.map.row_in_chunk(bytes, row)});
  }
  std::ranges::sort(candidates, {}, &RowCache::Candidate::turn);
  cache_.put(candidates);
} catch (const std::bad_alloc&) {
  // Fewer rows are kept.
}

}  // namespace h5feed
