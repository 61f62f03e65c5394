// SPDX-License-Identifier: Apache-2.0
// A bounded cache of rows ordered by the turn at which each is due; evicts the row due latest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/mutex.hpp"

namespace h5feed {

/// Caches rows of equal size, each filed under the unique turn at which it is due; callers guarantee that no
/// two rows share a turn. Evicts by Belady's rule (IBM Systems Journal 5(2), 1966): the row due latest goes
/// first. A row is served once; then it leaves or is filed again under its next turn.
///
/// Memory is allocated in slabs on demand. Each slot of a slab is in one of these states:
///
///   1 free  in `free_`
///   2 filed in `index_` under a turn; may be evicted at any moment
///   3 out   held by a lease, or being filled by `put`; nobody else touches its bytes
///
/// Thread-safe. Bytes are copied outside the lock; no method waits for another thread's copy.
class RowCache {
  using Index = std::map<std::uint64_t, std::uint32_t>;  // turn → slot

 public:
  /// Bytes of bookkeeping per row: a node of the index as the heap allocates it, and its place in the list of
  /// free slots. A test measures it.
  static constexpr std::size_t kBookkeepingBytes = 64 + sizeof(Index::node_type);

  /// A turn that never comes; `Lease::give_back` drops a row filed under it.
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// Creates a cache of at most `capacity_rows` rows of `row_bytes` ≥ 1. Throws std::bad_alloc.
  RowCache(std::size_t row_bytes, std::uint32_t capacity_rows);
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  /// Rows that one reader has taken out of the cache and owns exclusively. Move-only; must not outlive the
  /// cache.
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    /// Drops the rows unless they were given back.
    ~Lease();
    /// Returns the bytes of the row that was taken by `turns[number]`.
    const std::byte* row(std::size_t number) const noexcept;
    /// Files the rows again under their next turns, one per row in the order of `take`, instead of dropping
    /// them; `kNever` drops a row. The rows keep their slots, so nothing is evicted.
    void give_back(std::span<const std::uint64_t> turns) && noexcept;

   private:
    friend class RowCache;
    Lease(RowCache* cache, std::vector<Index::node_type> nodes) noexcept;
    RowCache* cache_;  // null once moved from or given back
    std::vector<Index::node_type> nodes_;
  };

  /// Takes the rows of all these turns out of the cache. Returns nullopt and takes none if one of them is
  /// missing. Throws std::bad_alloc.
  std::optional<Lease> take(std::span<const std::uint64_t> turns) H5FEED_EXCLUDES(mutex_);

  /// Returns whether `take` would find all these rows.
  bool contains(std::span<const std::uint64_t> turns) const H5FEED_EXCLUDES(mutex_);

  /// A row offered to `put`.
  struct Candidate {
    std::uint64_t turn = 0;
    const std::byte* bytes = nullptr;  ///< `row_bytes` bytes, which `put` copies
  };
  /// Files the rows that are worth keeping. `rows` are sorted by turn. Each takes a free slot, or replaces
  /// the row due latest if that is due later than itself. Skips turns that are past or already filed. Keeps
  /// fewer rows if the system has no memory for new slots. Throws std::bad_alloc before it changes anything.
  void put(std::span<const Candidate> rows) H5FEED_EXCLUDES(mutex_);

  /// Drops the rows of these turns; ignores turns that are not filed.
  void drop(std::span<const std::uint64_t> turns) noexcept H5FEED_EXCLUDES(mutex_);

  /// Declares turns before `turn` past: drops their rows and files none for them from now on.
  void forget_before(std::uint64_t turn) noexcept H5FEED_EXCLUDES(mutex_);

  std::uint64_t capacity_rows() const noexcept { return capacity_rows_; }
  /// Number of filed rows.
  std::uint64_t size() const H5FEED_EXCLUDES(mutex_);
  /// Memory in use in bytes, bookkeeping included; at most capacity_rows · (row_bytes + kBookkeepingBytes).
  std::uint64_t held_bytes() const H5FEED_EXCLUDES(mutex_);

  /// Checks all states and sums and throws std::logic_error if one is wrong. For tests.
  void check_invariants() const H5FEED_EXCLUDES(mutex_);

 private:
  std::byte* bytes_of(std::uint32_t slot) const noexcept;
  Index::node_type slot_for(std::uint64_t turn) H5FEED_REQUIRES(mutex_);
  Index::node_type new_slot() H5FEED_REQUIRES(mutex_);
  void file(Index::node_type node, std::uint64_t turn) noexcept H5FEED_REQUIRES(mutex_);
  void free(Index::node_type node) noexcept H5FEED_REQUIRES(mutex_);
  void give_back(std::vector<Index::node_type>& nodes, std::span<const std::uint64_t> turns) noexcept
      H5FEED_EXCLUDES(mutex_);

  const std::size_t row_bytes_;
  const std::uint32_t capacity_rows_;
  const std::uint32_t slab_rows_;
  mutable Mutex mutex_;
  // Never resized; a slab is allocated before the first of its slots is handed out.
  std::vector<ByteBuffer> slabs_;
  Index index_ H5FEED_GUARDED_BY(mutex_);
  std::vector<Index::node_type> free_ H5FEED_GUARDED_BY(mutex_);  // never reallocates: capacity reserved
  std::uint32_t slots_ H5FEED_GUARDED_BY(mutex_) = 0;             // slots that exist, in any state
  // Slots in state 3.
  std::uint32_t out_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t past_ H5FEED_GUARDED_BY(mutex_) = 0;  // turns before this one are past
};

}  // namespace h5feed
