// SPDX-License-Identifier: Apache-2.0
#include "cache/chunk_cache.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace h5feed {

ChunkCache::Pin::Pin(Pin&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)), entry_(std::exchange(other.entry_, nullptr)) {}

ChunkCache::Pin::~Pin() {
  if (cache_ != nullptr) cache_->unpin(*entry_);
}

// Needs no lock: the pin keeps the entry in state 2, in which its buffer does not change.
std::span<const std::byte> ChunkCache::Pin::bytes() const noexcept {
  return std::as_const(entry_->buffer).span();
}

void ChunkCache::Pin::retire() noexcept { cache_->retire(*entry_); }

ChunkCache::Load::Load(Load&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      key_(other.key_),
      bytes_(other.bytes_),
      buffer_(std::move(other.buffer_)) {}

ChunkCache::Load::~Load() {
  if (cache_ != nullptr) cache_->abandon(key_, std::move(buffer_));
}

std::span<std::byte> ChunkCache::Load::buffer() {
  if (buffer_.size() != bytes_) buffer_ = cache_->take_buffer(bytes_);
  return buffer_.span();
}

ChunkCache::Pin ChunkCache::Load::publish() && {
  return std::exchange(cache_, nullptr)->publish(key_, std::move(buffer_));
}

ChunkCache::Lookup ChunkCache::lookup(ChunkKey key, std::size_t bytes, const Wake& wake) {
  const MutexLock lock(mutex_);
  const auto [at, inserted] = entries_.try_emplace(key);
  Entry& entry = at->second;
  if (inserted) {
    try {
      entry.node.push_back(&entry);
    } catch (...) {
      entries_.erase(at);  // otherwise later lookups would wait for a load that nobody does
      throw;
    }
    entry.key = key;
    ++stats_.misses;
    return Load(this, key, bytes);
  }
  if (entry.loading) {
    entry.waiting.push_back(wake);
    return Pending{};
  }
  ++stats_.hits;
  entry.retired = false;
  if (entry.pins++ == 0 && !entry.stays) entry.node.splice(entry.node.end(), lru_, entry.lru);
  return Pin(this, &entry);
}

void ChunkCache::set_capacity(std::uint64_t capacity_bytes) {
  std::vector<ByteBuffer> surplus;  // freed after the lock is released
  const MutexLock lock(mutex_);
  capacity_bytes_ = capacity_bytes;
  evict_until(capacity_bytes_);
  if (entry_bytes_ + spare_bytes_ <= capacity_bytes_) return;
  surplus.swap(spare_);
  spare_bytes_ = 0;
}

std::uint64_t ChunkCache::capacity_bytes() const {
  const MutexLock lock(mutex_);
  return capacity_bytes_;
}

bool ChunkCache::has_room(std::size_t bytes) const {
  const MutexLock lock(mutex_);
  return entry_bytes_ + bytes <= capacity_bytes_;
}

bool ChunkCache::contains(ChunkKey key) const {
  const MutexLock lock(mutex_);
  return entries_.contains(key);
}

void ChunkCache::evict_until(std::uint64_t entry_bytes) noexcept {
  while (entry_bytes_ > entry_bytes && !lru_.empty()) {
    Entry& victim = *lru_.front();
    lru_.pop_front();
    entry_bytes_ -= victim.buffer.size();
    keep_spare(std::move(victim.buffer));
    entries_.erase(ChunkKey(victim.key));
    ++stats_.evictions;
  }
}

void ChunkCache::keep_spare(ByteBuffer buffer) noexcept {
  const std::size_t bytes = buffer.size();
  try {
    spare_.push_back(std::move(buffer));
    spare_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    // The list has no memory to grow: the buffer is freed instead.
  }
}

ByteBuffer ChunkCache::take_buffer(std::size_t bytes) {
  std::vector<ByteBuffer> surplus;  // freed after the lock is released
  {
    const MutexLock lock(mutex_);
    evict_until(capacity_bytes_ - std::min<std::uint64_t>(capacity_bytes_, bytes));
    surplus.reserve(spare_.size());  // no allocation may fail below, where the sums change
    entry_bytes_ += bytes;
    ByteBuffer reused;
    const auto match = std::ranges::find(spare_, bytes, [](const ByteBuffer& b) { return b.size(); });
    if (match != spare_.end()) {
      reused = std::move(*match);
      spare_.erase(match);
      spare_bytes_ -= bytes;
    }
    while (entry_bytes_ + spare_bytes_ > capacity_bytes_ && !spare_.empty()) {
      spare_bytes_ -= spare_.back().size();
      surplus.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
    stats_.peak_bytes = std::max(stats_.peak_bytes, entry_bytes_ + spare_bytes_);
    if (reused.data() != nullptr) return reused;
  }
  surplus.clear();
  try {
    return ByteBuffer(bytes);
  } catch (...) {
    const MutexLock lock(mutex_);
    entry_bytes_ -= bytes;
    throw;
  }
}

ChunkCache::Pin ChunkCache::publish(ChunkKey key, ByteBuffer buffer) {
  std::vector<Wake> waiting;
  Entry* entry = nullptr;
  {
    const MutexLock lock(mutex_);
    entry = &entries_.at(key);
    entry->loading = false;
    entry->pins = 1;
    entry->buffer = std::move(buffer);
    entry->stays = staying_bytes_ + entry->buffer.size() <= staying_limit_bytes_;
    if (entry->stays) staying_bytes_ += entry->buffer.size();
    waiting.swap(entry->waiting);
  }
  for (const Wake& wake : waiting) wake();
  return Pin(this, entry);
}

void ChunkCache::abandon(ChunkKey key, ByteBuffer buffer) noexcept {
  std::vector<Wake> waiting;
  {
    const MutexLock lock(mutex_);
    const auto at = entries_.find(key);
    waiting.swap(at->second.waiting);
    entries_.erase(at);
    entry_bytes_ -= buffer.size();
  }
  for (const Wake& wake : waiting) wake();
}

void ChunkCache::retire(Entry& entry) noexcept {
  const MutexLock lock(mutex_);
  entry.retired = true;
}

void ChunkCache::unpin(Entry& entry) noexcept {
  const MutexLock lock(mutex_);
  if (--entry.pins > 0 || entry.stays) return;
  if (entry_bytes_ <= capacity_bytes_) {
    entry.lru = entry.node.begin();
    lru_.splice(entry.retired ? lru_.begin() : lru_.end(), entry.node);
    return;
  }
  entry_bytes_ -= entry.buffer.size();
  keep_spare(std::move(entry.buffer));
  entries_.erase(ChunkKey(entry.key));
}

ChunkCache::Stats ChunkCache::stats() const {
  const MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.held_bytes = entry_bytes_ + spare_bytes_;
  return stats;
}

void ChunkCache::check_invariants() const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("ChunkCache: ") + what);
  };
  const MutexLock lock(mutex_);
  std::uint64_t published_bytes = 0;
  std::uint64_t staying_bytes = 0;
  std::size_t idle = 0;
  std::size_t loading = 0;
  for (const auto& [key, entry] : entries_) {
    require(entry.key == key, "an entry is filed under another key");
    if (entry.loading) {
      ++loading;
      require(entry.pins == 0 && entry.buffer.data() == nullptr, "a loading entry is pinned or has bytes");
      continue;
    }
    require(entry.waiting.empty(), "a lookup waits for a loaded entry");
    require(entry.buffer.data() != nullptr, "a loaded entry has no bytes");
    published_bytes += entry.buffer.size();
    if (entry.stays) {
      staying_bytes += entry.buffer.size();
    } else if (entry.pins == 0) {
      ++idle;
      require(*entry.lru == &entry, "an idle entry is not in the LRU list");
    }
  }
  require(idle == lru_.size(), "the LRU list holds an entry that is not idle");
  require(published_bytes <= entry_bytes_, "more bytes are published than counted");
  if (loading == 0) require(published_bytes == entry_bytes_, "bytes are counted that nothing holds");
  require(idle == 0 || entry_bytes_ <= capacity_bytes_, "idle entries are kept above the capacity");
  require(staying_bytes == staying_bytes_ && staying_bytes <= staying_limit_bytes_,
          "chunks stay that were not counted, or above the limit");
  std::uint64_t spare_bytes = 0;
  for (const ByteBuffer& buffer : spare_) spare_bytes += buffer.size();
  require(spare_bytes == spare_bytes_, "spare buffers and their sum differ");
}

}  // namespace h5feed
