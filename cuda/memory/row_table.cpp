// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_table.hpp"

#include <algorithm>
#include <utility>

namespace h5feed::gpu {

std::shared_ptr<RowBlock> RowTable::drop(std::uint32_t number) noexcept {
  std::shared_ptr<RowBlock> block = std::move(blocks_[number]);
  std::erase_if(free_, [&](Place place) { return place.block == number; });
  for (std::uint32_t row = 0; row < block->rows.size(); ++row) {
    const Place place{number, row};
    const auto found = places_.find(block->rows[row].sample);
    if (found == places_.end() || found->second != place) continue;  // a free row
    not_due_.erase(place);
    places_.erase(found);
  }
  return block;
}

std::shared_ptr<RowBlock> RowTable::drop_newest_idle() noexcept {
  for (auto number = static_cast<std::uint32_t>(blocks_.size()); number-- > 0;) {
    if (blocks_[number] && !blocks_[number]->entered()) return drop(number);
  }
  return nullptr;
}

std::shared_ptr<RowBlock> RowTable::drop_newest() noexcept {
  for (auto number = static_cast<std::uint32_t>(blocks_.size()); number-- > 0;) {
    if (blocks_[number]) return drop(number);
  }
  return nullptr;
}

bool RowTable::has_blocks() const noexcept {
  return std::ranges::any_of(blocks_, [](const auto& block) { return block != nullptr; });
}

std::size_t RowTable::num_free() const noexcept {
  std::size_t rows = free_.size();
  for (std::size_t i = open_; i < blocks_.size(); ++i) {
    if (blocks_[i]) rows += blocks_[i]->num_rows - blocks_[i]->rows.size();
  }
  return rows;
}

std::uint64_t RowTable::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block ? block->num_bytes : 0;
  return bytes;
}

KeptRow RowTable::find(std::int64_t sample) const {
  const auto found = places_.find(sample);
  if (found == places_.end()) return {};
  return {blocks_[found->second.block], found->second.row};
}

std::byte* RowTable::address(Place place) const { return blocks_[place.block]->address(place.row); }

// Returns a row that was given back, else one that never was in use.
std::optional<RowTable::Place> RowTable::take_free() {
  if (!free_.empty()) {
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }
  for (; open_ < blocks_.size(); ++open_) {
    if (!blocks_[open_]) continue;
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
    const RowBlock* const block = blocks_[tour_.block].get();
    if (block == nullptr || tour_.row >= block->rows.size()) {
      tour_ = {tour_.block + 1, 0};
      continue;
    }
    const std::int64_t sample = block->rows[tour_.row].sample;
    const auto found = places_.find(sample);
    if (found != places_.end() && found->second == tour_) samples.push_back(sample);
    ++tour_.row;
  }
  return samples;
}

}  // namespace h5feed::gpu
