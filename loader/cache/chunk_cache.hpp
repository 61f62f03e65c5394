// SPDX-License-Identifier: Apache-2.0
// A cache of decoded chunks, bounded in bytes. Evicts the least recently used chunk, except chunks that are
// to stay; loads each chunk once even if several threads want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/mutex.hpp"

namespace h5feed {

/// Identifies chunk number `chunk` of field number `field`.
struct ChunkKey {
  std::uint32_t field = 0;
  std::uint64_t chunk = 0;
  bool operator==(const ChunkKey&) const = default;
};

/// Hashes a ChunkKey for the table of the cache.
struct ChunkKeyHash {
  std::size_t operator()(const ChunkKey& key) const noexcept {
    // Chunk numbers are consecutive: spread them with a 64-bit odd multiplier (Fibonacci hashing).
    return static_cast<std::size_t>((key.chunk * 2 + key.field + 1) * 0x9E3779B97F4A7C15ull);
  }
};

/// A byte-bounded LRU cache of decoded chunks. Thread-safe; no method waits for another thread's load. Pins
/// and loads must not outlive the cache. Each entry is in one of these states:
///
///   1 loading  its one `Load` exists; no pins; not in the LRU list; may have waiting lookups
///   2 pinned   pins > 0; not in the LRU list; cannot be evicted
///   3 idle     pins = 0; in the LRU list; may be evicted at any moment
///   4 staying  pins ≥ 0; not in the LRU list; never evicted
///
/// A chunk that exceeds the capacity, because all others are in use, leaves the cache with its last pin.
/// Invariant: idle entries are kept only while all entries together fit the capacity, so bytes held ≤
/// max(capacity, chunks loading or pinned) + spare buffers of evicted chunks, which the next load reuses
/// first. Buffers are freed outside the lock.
class ChunkCache {
  struct Entry;

 public:
  /// Called when another thread's load of a chunk has finished or failed: look the chunk up again. Runs on
  /// the loading thread; must not throw.
  using Wake = std::function<void()>;

  /// Keeps one chunk in memory and readable for its own lifetime. Move-only.
  class Pin {
   public:
    Pin(Pin&& other) noexcept;
    Pin& operator=(Pin&&) = delete;
    ~Pin();
    /// Returns the decoded bytes, valid for the lifetime of the pin.
    std::span<const std::byte> bytes() const noexcept;
    /// Marks the chunk as not needed any more: once unpinned it is evicted first, while its memory is still
    /// in the processor's caches. A later lookup that finds the chunk clears the mark.
    void retire() noexcept;

   private:
    friend class ChunkCache;
    Pin(ChunkCache* cache, Entry* entry) noexcept : cache_(cache), entry_(entry) {}
    ChunkCache* cache_;  // null once moved from
    Entry* entry_;
  };

  /// The exclusive right and duty to load one chunk: fill `buffer()`, then call `publish()`. If destroyed
  /// without `publish()`, as a rule by an exception, the load is abandoned and waiting lookups are woken to
  /// try again. Move-only.
  class Load {
   public:
    Load(Load&& other) noexcept;
    Load& operator=(Load&&) = delete;
    ~Load();
    /// Returns the memory to decode into, allocated on the first call; may evict idle chunks. Throws
    /// std::bad_alloc.
    std::span<std::byte> buffer();
    /// Makes the chunk visible to lookups and returns a pin on it. Calls the `Wake` of every waiting
    /// lookup.
    Pin publish() &&;

   private:
    friend class ChunkCache;
    Load(ChunkCache* cache, ChunkKey key, std::size_t bytes) noexcept
        : cache_(cache), key_(key), bytes_(bytes) {}
    ChunkCache* cache_;  // null once published or moved from
    ChunkKey key_;
    std::size_t bytes_;
    ByteBuffer buffer_;
  };

  /// Result of a lookup while another thread loads the chunk: the cache has stored the `Wake` and will call
  /// it.
  struct Pending {};

  /// Result of a lookup: the chunk, the right to load it, or a wait for another thread.
  using Lookup = std::variant<Pin, Load, Pending>;

  /// Counters since construction, and the memory in use.
  struct Stats {
    std::uint64_t hits = 0;    ///< Lookups that found the chunk
    std::uint64_t misses = 0;  ///< Lookups that had to load the chunk
    /// Idle chunks that were evicted to make room.
    std::uint64_t evictions = 0;
    /// Bytes of chunks and spare buffers now.
    std::uint64_t held_bytes = 0;
    /// Maximum of `held_bytes` so far.
    std::uint64_t peak_bytes = 0;
  };

  /// Creates a cache of `capacity_bytes`. The first chunks to arrive stay for good, until they take
  /// `staying_bytes` of the capacity; the rest is LRU. MinIO calls this a cache without replacement, for data
  /// that is read in full every epoch (Mohan et al.: "Analyzing and Mitigating Data Stalls in DNN Training",
  /// VLDB 2021, arXiv 2007.06775).
  explicit ChunkCache(std::uint64_t capacity_bytes, std::uint64_t staying_bytes = 0)
      : staying_limit_bytes_(staying_bytes), capacity_bytes_(capacity_bytes) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  /// Looks up a chunk of `bytes` decoded bytes. Returns a `Pin` if it is cached, a `Load` if the caller has
  /// to load it, and `Pending`, keeping `wake`, if another thread is loading it. Throws std::bad_alloc.
  Lookup lookup(ChunkKey key, std::size_t bytes, const Wake& wake) H5FEED_EXCLUDES(mutex_);

  /// Changes the capacity. Evicts idle chunks until the rest fits; chunks in use leave with their last pin.
  void set_capacity(std::uint64_t capacity_bytes) H5FEED_EXCLUDES(mutex_);

  /// Returns whether a chunk of `bytes` decoded bytes could be loaded without an eviction.
  bool has_room(std::size_t bytes) const H5FEED_EXCLUDES(mutex_);

  /// Returns whether the chunk is cached or being loaded. Does not count as a use.
  bool contains(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  /// Returns a consistent snapshot of the counters.
  Stats stats() const H5FEED_EXCLUDES(mutex_);
  std::uint64_t capacity_bytes() const H5FEED_EXCLUDES(mutex_);

  /// Checks all states and sums and throws std::logic_error if one is wrong. For tests.
  void check_invariants() const H5FEED_EXCLUDES(mutex_);

 private:
  struct Entry {
    ChunkKey key;
    bool loading = true;
    std::uint32_t pins = 0;
    bool retired = false;
    bool stays = false;
    ByteBuffer buffer;
    // The entry's node of the LRU list while it is not there, so that moving it allocates nothing.
    std::list<Entry*> node;
    std::list<Entry*>::iterator lru;  // valid in state 3 only
    std::vector<Wake> waiting;        // non-empty in state 1 only
  };

  ByteBuffer take_buffer(std::size_t bytes) H5FEED_EXCLUDES(mutex_);
  void evict_until(std::uint64_t entry_bytes) noexcept H5FEED_REQUIRES(mutex_);
  void keep_spare(ByteBuffer buffer) noexcept H5FEED_REQUIRES(mutex_);
  Pin publish(ChunkKey key, ByteBuffer buffer) H5FEED_EXCLUDES(mutex_);
  void abandon(ChunkKey key, ByteBuffer buffer) noexcept H5FEED_EXCLUDES(mutex_);
  void retire(Entry& entry) noexcept H5FEED_EXCLUDES(mutex_);
  void unpin(Entry& entry) noexcept H5FEED_EXCLUDES(mutex_);

  const std::uint64_t staying_limit_bytes_;
  mutable Mutex mutex_;
  std::uint64_t capacity_bytes_ H5FEED_GUARDED_BY(mutex_);
  std::unordered_map<ChunkKey, Entry, ChunkKeyHash> entries_ H5FEED_GUARDED_BY(mutex_);
  std::list<Entry*> lru_ H5FEED_GUARDED_BY(mutex_);          // next victim first
  std::vector<ByteBuffer> spare_ H5FEED_GUARDED_BY(mutex_);  // buffers for reuse by the next load
  std::uint64_t entry_bytes_ H5FEED_GUARDED_BY(mutex_) = 0;  // buffers of entries and of running loads
  std::uint64_t spare_bytes_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t staying_bytes_ H5FEED_GUARDED_BY(mutex_) = 0;
  Stats stats_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
