// SPDX-License-Identifier: Apache-2.0
#include "base/row_layout.hpp"

#include <algorithm>
#include <utility>

namespace h5feed {

RowLayout::RowLayout(std::uint64_t rows, std::uint64_t rows_per_chunk)
    : num_rows_(rows),
      num_chunks_(rows / rows_per_chunk + (rows % rows_per_chunk != 0 ? 1 : 0)),
      rows_per_chunk_(rows_per_chunk) {}

RowLayout::RowLayout(const std::vector<Run>& runs) {
  std::vector<Placed> placed;
  placed.reserve(runs.size());
  bool regular = true;
  for (const Run& run : runs) {
    if (run.rows == 0) continue;
    // The layout is regular as long as all runs have the same chunk height, skip nothing, and none before the
    // last ends in a short chunk.
    regular = regular && run.skipped == 0 &&
              (placed.empty() || (run.rows_per_chunk == rows_per_chunk_ && num_rows_ % rows_per_chunk_ == 0));
    placed.push_back({num_rows_, num_chunks_, run.rows_per_chunk, run.skipped});
    num_rows_ += run.rows;
    num_chunks_ += (run.skipped + run.rows - 1) / run.rows_per_chunk + 1;
    rows_per_chunk_ = std::max(rows_per_chunk_, run.rows_per_chunk);
  }
  if (!regular) runs_ = std::make_shared<const std::vector<Placed>>(std::move(placed));
}

const RowLayout::Placed& RowLayout::run_of_row(std::uint64_t row) const noexcept {
  return *(std::ranges::upper_bound(*runs_, row, {}, &Placed::first_row) - 1);
}

const RowLayout::Placed& RowLayout::run_of_chunk(std::uint64_t chunk) const noexcept {
  return *(std::ranges::upper_bound(*runs_, chunk, {}, &Placed::first_chunk) - 1);
}

RowLayout::Rows RowLayout::rows_of(std::uint64_t chunk) const noexcept {
  if (regular()) return {chunk * rows_per_chunk_, std::min((chunk + 1) * rows_per_chunk_, num_rows_)};
  const Placed& run = run_of_chunk(chunk);
  const Placed* const after = &run + 1;
  const std::uint64_t run_end = after == runs_->data() + runs_->size() ? num_rows_ : after->first_row;
  // First row of the chunk, counted from the first row of the run's first chunk, skipped rows included.
  const std::uint64_t begin = (chunk - run.first_chunk) * run.rows_per_chunk;
  return {run.first_row + std::max(begin, run.skipped) - run.skipped,
          std::min(run.first_row + begin + run.rows_per_chunk - run.skipped, run_end)};
}

std::uint64_t RowLayout::fingerprint() const noexcept {
  // FNV-1a over words (Fowler, Noll, Vo).
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  add(num_rows_);
  add(rows_per_chunk_);
  if (!regular()) {
    for (const Placed& run : *runs_) {
      add(run.first_row);
      add(run.rows_per_chunk);
      add(run.skipped);
    }
  }
  return hash;
}

}  // namespace h5feed
