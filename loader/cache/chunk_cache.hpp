// Decoded chunks in memory: bounded in bytes, least recently used goes first unless it is to stay, each
// chunk loaded once however many threads want it.
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

/// Chunk number `chunk` of field number `field`.
struct ChunkKey {
  std::uint32_t field = 0;
  std::uint64_t chunk = 0;
  bool operator==(const ChunkKey&) const = default;
};

struct ChunkKeyHash {
  std::size_t operator()(const ChunkKey& key) const noexcept {
    // Chunk numbers are consecutive: spread them with a 64-bit odd multiplier (Fibonacci hashing).
    return static_cast<std::size_t>((key.chunk * 2 + key.field + 1) * 0x9E3779B97F4A7C15ull);
  }
};

/// Thread-safe; no method waits for another thread's load. One entry is in one of these states:
///
///   1 loading  its one `Load` exists; no pins; not in the LRU list; may have waiting lookups
///   2 pinned   pins > 0; not in the LRU list; cannot be evicted
///   3 idle     pins = 0; in the LRU list; may be evicted at any moment
///   4 staying  pins ≥ 0; not in the LRU list; never evicted
///
/// A chunk for which there was no room, because all others are in use, leaves the cache with its last
/// pin. Invariant: idle entries are kept only while all entries together fit the capacity, so bytes
/// held ≤ max(capacity, chunks loading or pinned) + spare buffers of chunks that left, which the next
/// load takes first. Buffers are freed outside the lock.
class ChunkCache {
  struct Entry;

 public:
  /// Called when a chunk that another thread was loading is there, or that load failed: look it up
  /// again. Runs on the loading thread; must not throw.
  using Resume = std::function<void()>;

  /// Keeps one chunk in memory and readable. Move-only.
  class Pin {
   public:
    Pin(Pin&& other) noexcept;
    Pin& operator=(Pin&&) = delete;
    ~Pin();
    std::span<const std::byte> bytes() const noexcept;
    /// No further use of the chunk is foreseen: it goes first when room is needed, while its memory is
    /// still in the processor's caches. A later lookup that finds it ends that.
    void retire() noexcept;

   private:
    friend class ChunkCache;
    Pin(ChunkCache* cache, Entry* entry) noexcept : cache_(cache), entry_(entry) {}
    ChunkCache* cache_;  // null once moved from
    Entry* entry_;
  };

  /// The right and the duty to load one chunk: fill `buffer()`, then `publish()`. Destroyed without
  /// `publish()` (an exception, as a rule) it gives the duty up, and whoever waits tries again.
  class Load {
   public:
    Load(Load&& other) noexcept;
    Load& operator=(Load&&) = delete;
    ~Load();
    /// The memory to decode into; allocated on the first call. Throws std::bad_alloc.
    std::span<std::byte> buffer();
    /// Makes the chunk visible, and pins it for the caller.
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

  /// Another thread is loading the chunk; the `Resume` was kept and will be called.
  struct Pending {};

  using Lookup = std::variant<Pin, Load, Pending>;

  struct Stats {
    std::uint64_t hits = 0;    ///< lookups that found the chunk
    std::uint64_t misses = 0;  ///< lookups that had to load it
    std::uint64_t evictions = 0;
    std::uint64_t held_bytes = 0;
    std::uint64_t peak_bytes = 0;
  };

  /// The first chunks to arrive stay for good, until `staying_bytes` of the capacity are taken; the rest is
  /// least recently used. What MinIO calls a cache without replacement, for data read in full every epoch
  /// (Mohan et al.: "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021, arXiv 2007.06775).
  explicit ChunkCache(std::uint64_t capacity_bytes, std::uint64_t staying_bytes = 0)
      : staying_limit_bytes_(staying_bytes), capacity_bytes_(capacity_bytes) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  /// Finds a chunk of `bytes` decoded bytes.
  Lookup lookup(ChunkKey key, std::size_t bytes, const Resume& resume) H5FEED_EXCLUDES(mutex_);

  /// Chunks that are not in use leave until the rest fits; those in use leave with their last pin.
  void set_capacity(std::uint64_t capacity_bytes) H5FEED_EXCLUDES(mutex_);

  /// Whether a chunk of `bytes` decoded bytes could be loaded without another having to go.
  bool has_room(std::size_t bytes) const H5FEED_EXCLUDES(mutex_);

  /// Whether a lookup would find the chunk, or wait for a load that runs. Counts as no use of it.
  bool contains(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  Stats stats() const H5FEED_EXCLUDES(mutex_);
  std::uint64_t capacity_bytes() const H5FEED_EXCLUDES(mutex_);

  /// Walks the whole structure and throws std::logic_error where a state or a sum is wrong. For tests.
  void check_invariants() const H5FEED_EXCLUDES(mutex_);

 private:
  struct Entry {
    ChunkKey key;
    bool loading = true;
    std::uint32_t pins = 0;
    bool retired = false;
    bool stays = false;
    ByteBuffer buffer;
    std::list<Entry*>::iterator lru;  // valid in state 3 only
    std::vector<Resume> waiting;      // non-empty in state 1 only
  };

  ByteBuffer take_buffer(std::size_t bytes) H5FEED_EXCLUDES(mutex_);
  void evict_until(std::uint64_t entry_bytes) H5FEED_REQUIRES(mutex_);
  Pin publish(ChunkKey key, ByteBuffer buffer) H5FEED_EXCLUDES(mutex_);
  void abandon(ChunkKey key, ByteBuffer buffer) noexcept H5FEED_EXCLUDES(mutex_);
  void retire(Entry& entry) noexcept H5FEED_EXCLUDES(mutex_);
  void unpin(Entry& entry) noexcept H5FEED_EXCLUDES(mutex_);

  const std::uint64_t staying_limit_bytes_;
  mutable Mutex mutex_;
  std::uint64_t capacity_bytes_ H5FEED_GUARDED_BY(mutex_);
  std::unordered_map<ChunkKey, Entry, ChunkKeyHash> entries_ H5FEED_GUARDED_BY(mutex_);
  std::list<Entry*> lru_ H5FEED_GUARDED_BY(mutex_);          // first to go first
  std::vector<ByteBuffer> spare_ H5FEED_GUARDED_BY(mutex_);  // for the next load
  std::uint64_t entry_bytes_ H5FEED_GUARDED_BY(mutex_) = 0;  // buffers of entries and of their loads
  std::uint64_t spare_bytes_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t staying_bytes_ H5FEED_GUARDED_BY(mutex_) = 0;
  Stats stats_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
