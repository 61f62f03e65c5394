// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_table.hpp"

#include <algorithm>
#include <iterator>

#include "batch/device.hpp"

namespace h5feed::gpu {

std::shared_ptr<RowBlock> RowTable::drop_newest() noexcept {
  if (blocks_.empty()) return nullptr;
  const auto last = static_cast<std::uint32_t>(blocks_.size() - 1);
  std::shared_ptr<RowBlock> block = std::move(blocks_.back());
  blocks_.pop_back();
  open_ = std::min(open_, blocks_.size());
  std::erase_if(free_, [&](Place place) { return place.block == last; });
  for (std::uint32_t number = 0; number < block->rows.size(); ++number) {
    const RowBlock::Row& held = block->rows[number];
    const Place place{last, number};
    const auto found = places_.find(held.sample);
    if (found == places_.end() || found->second != place) continue;  // a free row
    filed_.erase({held.due, place});
    places_.erase(found);
  }
  return block;
}

std::size_t RowTable::num_free() const noexcept {
  std::size_t rows = free_.size();
  for (std::size_t i = open_; i < blocks_.size(); ++i) rows += blocks_[i]->num_rows - blocks_[i]->rows.size();
  return rows;
}

std::uint64_t RowTable::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->num_bytes;
  return bytes;
}

KeptRow RowTable::find(std::int64_t sample) const {
  const auto found = places_.find(sample);
  if (found == places_.end()) return {};
  return {blocks_[found->second.block], found->second.row};
}

std::byte* RowTable::address(Place place) const noexcept {
  const RowBlock& block = *blocks_[place.block];
  return block.memory.get() + place.row * block.pitch;
}

// Returns a row that was given back, else one that never was in use.
std::optional<RowTable::Place> RowTable::take_free() {
  if (!free_.empty()) {
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }
  for (; open_ < blocks_.size(); ++open_) {
    std::deque<RowBlock::Row>& rows = blocks_[open_]->rows;
    if (rows.size() == blocks_[open_]->num_rows) continue;
    rows.emplace_back();
    return Place{static_cast<std::uint32_t>(open_), static_cast<std::uint32_t>(rows.size() - 1)};
  }
  return std::nullopt;
}

RowTable::Claim RowTable::claim(std::span<const std::uint64_t> due) {
  Claim claim;
  claim.places.reserve(due.size());
  free_.reserve(free_.size() + due.size());
  try {
    while (claim.places.size() < due.size()) {
      const std::optional<Place> place = take_free();
      if (!place) break;
      claim.places.push_back(*place);
    }
  } catch (...) {
    for (const Place place : claim.places) release(place);
    throw;
  }
  // From the sample that is due last; rows that batches still have to read are passed over.
  for (auto at = filed_.end(); at != filed_.begin() && claim.places.size() < due.size();) {
    const auto last = std::prev(at);
    const RowBlock::Row& held = row(last->second);
    if (held.users.load(std::memory_order_acquire) > 0) {
      at = last;
      continue;
    }
    if (due[claim.places.size()] >= last->first) break;
    claim.places.push_back(last->second);
    claim.replaces = true;
    places_.erase(held.sample);
    at = filed_.erase(last);
  }
  return claim;
}

void RowTable::put(Place place, std::int64_t sample, std::uint64_t due) {
  const auto filed = filed_.insert({due, place}).first;
  try {
    places_.insert_or_assign(sample, place);
  } catch (...) {
    filed_.erase(filed);
    throw;
  }
  row(place).sample = sample;
  row(place).due = due;
}

std::vector<RowTable::Entry> RowTable::outdated(std::uint64_t past, std::uint64_t end, std::size_t most) {
  std::vector<Entry> rows;
  for (const auto& [due, place] : filed_) {
    if (due >= past || rows.size() == most) break;
    rows.push_back({place, row(place).sample});
  }
  if (end != end_) {
    end_ = end;
    unseen_ = {};
    all_seen_ = false;
  }
  if (all_seen_) return rows;
  auto at = filed_.lower_bound({DueTurns::kNever, unseen_});
  for (; at != filed_.end() && rows.size() < most; ++at) rows.push_back({at->second, row(at->second).sample});
  all_seen_ = at == filed_.end();
  if (!all_seen_) unseen_ = at->second;
  return rows;
}

void RowTable::file_again(Place place, std::uint64_t due) {
  RowBlock::Row& held = row(place);
  if (held.due == due) return;
  filed_.insert({due, place});
  filed_.erase({held.due, place});
  held.due = due;
}

}  // namespace h5feed::gpu
