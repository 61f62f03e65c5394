// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_table.hpp"

#include <algorithm>

namespace h5feed::gpu {

std::shared_ptr<RowBlock> RowTable::drop_newest() noexcept {
  if (blocks_.empty()) return nullptr;
  const auto last = static_cast<std::uint32_t>(blocks_.size() - 1);
  std::shared_ptr<RowBlock> block = std::move(blocks_.back());
  blocks_.pop_back();
  open_ = std::min(open_, blocks_.size());
  std::erase_if(free_, [&](Place place) { return place.block == last; });
  for (std::uint32_t number = 0; number < block->rows.size(); ++number) {
    const Place place{last, number};
    const auto found = places_.find(block->rows[number].sample);
    if (found == places_.end() || found->second != place) continue;  // a free row
    not_due_.erase(place);
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

RowTable::Claim RowTable::claim(std::size_t samples, std::size_t due) {
  Claim claim;
  claim.places.reserve(samples);
  free_.reserve(free_.size() + samples);
  try {
    while (claim.places.size() < samples) {
      const std::optional<Place> place = take_free();
      if (!place) break;
      claim.places.push_back(*place);
    }
  } catch (...) {
    for (const Place place : claim.places) release(place);
    throw;
  }
  for (auto at = not_due_.begin(); at != not_due_.end() && claim.places.size() < due;) {
    const RowBlock::Row& held = blocks_[at->block]->rows[at->row];
    if (held.users.load(std::memory_order_acquire) > 0) {
      ++at;
      continue;
    }
    claim.places.push_back(*at);
    claim.replaces = true;
    places_.erase(held.sample);
    at = not_due_.erase(at);
  }
  return claim;
}

void RowTable::put(Place place, std::int64_t sample, bool due) {
  if (!due) not_due_.insert(place);
  try {
    places_.insert_or_assign(sample, place);
  } catch (...) {
    not_due_.erase(place);
    throw;
  }
  blocks_[place.block]->rows[place.row].sample = sample;
}

void RowTable::mark(std::int64_t sample, bool due) {
  const auto found = places_.find(sample);
  if (found == places_.end()) return;
  if (due) {
    not_due_.erase(found->second);
  } else {
    not_due_.insert(found->second);
  }
}

std::vector<std::int64_t> RowTable::next_of_tour(std::size_t most) {
  std::vector<std::int64_t> samples;
  while (tour_.block < blocks_.size() && samples.size() < most) {
    const std::deque<RowBlock::Row>& rows = blocks_[tour_.block]->rows;
    if (tour_.row >= rows.size()) {
      tour_ = {tour_.block + 1, 0};
      continue;
    }
    const std::int64_t sample = rows[tour_.row].sample;
    const auto found = places_.find(sample);
    if (found != places_.end() && found->second == tour_) samples.push_back(sample);
    ++tour_.row;
  }
  return samples;
}

}  // namespace h5feed::gpu
