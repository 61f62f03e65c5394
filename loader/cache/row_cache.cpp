// SPDX-License-Identifier: Apache-2.0
#include "cache/row_cache.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace h5feed {
namespace {

// Large enough for 2 MiB pages, small enough not to reserve far more than is used.
constexpr std::size_t kSlabBytes = std::size_t{8} << 20;

std::uint32_t rows_per_slab(std::size_t row_bytes, std::uint32_t capacity_rows) {
  const std::size_t rows = std::max<std::size_t>(1, kSlabBytes / row_bytes);
  return static_cast<std::uint32_t>(std::min<std::size_t>(rows, std::max(1U, capacity_rows)));
}

}  // namespace

RowCache::Lease::Lease(RowCache* cache, std::vector<Index::node_type> nodes) noexcept
    : cache_(cache), nodes_(std::move(nodes)) {}

RowCache::Lease::Lease(Lease&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)), nodes_(std::move(other.nodes_)) {}

RowCache::Lease::~Lease() {
  if (cache_ != nullptr) cache_->give_back(nodes_, {});
}

const std::byte* RowCache::Lease::row(std::size_t number) const noexcept {
  return cache_->bytes_of(nodes_[number].mapped());
}

void RowCache::Lease::give_back(std::span<const std::uint64_t> turns) && noexcept {
  std::exchange(cache_, nullptr)->give_back(nodes_, turns);
}

RowCache::RowCache(std::size_t row_bytes, std::uint32_t capacity_rows)
    : row_bytes_(row_bytes),
      capacity_rows_(capacity_rows),
      slab_rows_(rows_per_slab(row_bytes, capacity_rows)),
      slabs_(capacity_rows / slab_rows_ + 1) {
  free_.reserve(capacity_rows);
}

std::optional<RowCache::Lease> RowCache::take(std::span<const std::uint64_t> turns) {
  std::vector<Index::iterator> found;
  std::vector<Index::node_type> nodes;
  found.reserve(turns.size());
  nodes.reserve(turns.size());
  {
    const MutexLock lock(mutex_);
    for (const std::uint64_t turn : turns) {
      found.push_back(index_.find(turn));
      if (found.back() == index_.end()) return std::nullopt;
    }
    for (const Index::iterator at : found) nodes.push_back(index_.extract(at));
    out_ += static_cast<std::uint32_t>(nodes.size());
  }
  return Lease(this, std::move(nodes));
}

bool RowCache::contains(std::span<const std::uint64_t> turns) const {
  const MutexLock lock(mutex_);
  for (const std::uint64_t turn : turns) {
    if (!index_.contains(turn)) return false;
  }
  return true;
}

void RowCache::put(std::span<const Candidate> rows) {
  struct Filling {
    const Candidate* row;
    Index::node_type node;
  };
  std::vector<Filling> fillings;
  fillings.reserve(rows.size());
  {
    const MutexLock lock(mutex_);
    for (const Candidate& row : rows) {
      if (row.turn < past_ || index_.contains(row.turn)) continue;
      Index::node_type node = slot_for(row.turn);
      if (node.empty()) break;  // the remaining rows are due even later
      ++out_;
      fillings.push_back({&row, std::move(node)});
    }
  }
  for (const Filling& filling : fillings) {
    std::memcpy(bytes_of(filling.node.mapped()), filling.row->bytes, row_bytes_);
  }
  const MutexLock lock(mutex_);
  out_ -= static_cast<std::uint32_t>(fillings.size());
  for (Filling& filling : fillings) file(std::move(filling.node), filling.row->turn);
}

void RowCache::drop(std::span<const std::uint64_t> turns) noexcept {
  const MutexLock lock(mutex_);
  for (const std::uint64_t turn : turns) {
    if (const auto at = index_.find(turn); at != index_.end()) free(index_.extract(at));
  }
}

void RowCache::forget_before(std::uint64_t turn) noexcept {
  const MutexLock lock(mutex_);
  past_ = turn;
  while (!index_.empty() && index_.begin()->first < turn) free(index_.extract(index_.begin()));
}

std::uint64_t RowCache::size() const {
  const MutexLock lock(mutex_);
  return index_.size();
}

std::uint64_t RowCache::held_bytes() const {
  const MutexLock lock(mutex_);
  return std::uint64_t{slots_} * (row_bytes_ + kBookkeepingBytes);
}

std::byte* RowCache::bytes_of(std::uint32_t slot) const noexcept {
  return const_cast<std::byte*>(slabs_[slot / slab_rows_].data()) + slot % slab_rows_ * row_bytes_;
}

// Returns a slot for a row due at `turn`: a free one, a new one, or that of the row due latest. Returns an
// empty node if no slot is worth replacing.
RowCache::Index::node_type RowCache::slot_for(std::uint64_t turn) {
  if (!free_.empty()) {
    Index::node_type node = std::move(free_.back());
    free_.pop_back();
    return node;
  }
  if (slots_ < capacity_rows_) {
    try {
      return new_slot();
    } catch (const std::bad_alloc&) {
      // Make do with the existing slots.
    }
  }
  if (index_.empty() || std::prev(index_.end())->first <= turn) return {};
  return index_.extract(std::prev(index_.end()));
}

RowCache::Index::node_type RowCache::new_slot() {
  Index::node_type node;
  {
    Index one;
    one.emplace(0, slots_);
    node = one.extract(one.begin());
  }
  if (slots_ % slab_rows_ == 0) {
    const std::size_t rows = std::min(slab_rows_, capacity_rows_ - slots_);
    slabs_[slots_ / slab_rows_] = ByteBuffer(rows * row_bytes_);
  }
  ++slots_;
  return node;
}

void RowCache::file(Index::node_type node, std::uint64_t turn) noexcept {
  node.key() = turn;
  if (turn < past_ || turn == kNever) {
    free(std::move(node));
  } else if (auto result = index_.insert(std::move(node)); !result.inserted) {
    free(std::move(result.node));
  }
}

void RowCache::free(Index::node_type node) noexcept { free_.push_back(std::move(node)); }

void RowCache::give_back(std::vector<Index::node_type>& nodes,
                         std::span<const std::uint64_t> turns) noexcept {
  const MutexLock lock(mutex_);
  out_ -= static_cast<std::uint32_t>(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    file(std::move(nodes[i]), i < turns.size() ? turns[i] : kNever);
  }
}

void RowCache::check_invariants() const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("RowCache: ") + what);
  };
  const MutexLock lock(mutex_);
  require(slots_ <= capacity_rows_, "more slots than the capacity");
  require(index_.size() + free_.size() + out_ == slots_, "slots are lost or counted twice");
  std::vector<bool> seen(slots_);
  const auto see = [&](std::uint32_t slot) {
    require(slot < seen.size() && !seen[slot], "a slot is filed twice, or does not exist");
    seen[slot] = true;
  };
  for (const auto& [turn, slot] : index_) {
    require(turn >= past_, "a row is filed under a turn that is past");
    see(slot);
  }
  for (const Index::node_type& node : free_) see(node.mapped());
  const auto slabs = static_cast<std::size_t>(
      std::ranges::count_if(slabs_, [](const ByteBuffer& slab) { return slab.data() != nullptr; }));
  require(slabs == (slots_ + slab_rows_ - 1) / slab_rows_, "slabs and slots differ");
}

}  // namespace h5feed
