// Rows in memory by when they are due: bounded, the row due latest goes first.
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

/// Rows of one size, each filed under the one turn at which it is due; whoever files a row knows that no
/// other row has that turn. Eviction is Belady's rule (IBM Systems Journal 5(2), 1966) on rows: what is due
/// latest goes. A row is served once and then leaves, or is filed anew under its next turn.
///
/// Memory comes in slabs, as it is needed. Each slot of it is in one of these states:
///
///   1 free  in `free_`
///   2 filed in `index_` under a turn; may be evicted at any moment
///   3 out   of a lease, or being filled by `put`; nobody else touches its bytes
///
/// Thread-safe; bytes are copied outside the lock, nothing waits.
class RowCache {
  using Index = std::map<std::uint64_t, std::uint32_t>;  // turn → slot

 public:
  /// Memory that a row takes beside its bytes: a node of the index as the heap allocates it, and its place
  /// in the list of free slots. Measured by a test.
  static constexpr std::size_t kBookkeepingBytes = 64 + sizeof(Index::node_type);

  /// A turn that never comes: see `Lease::give_back`.
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// Holds at most `capacity_rows` rows of `row_bytes` ≥ 1. Throws std::bad_alloc.
  RowCache(std::size_t row_bytes, std::uint32_t capacity_rows);
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  /// Rows that left the cache for one reader, who has them to himself. Move-only; does not outlive the
  /// cache.
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    /// The rows are dropped.
    ~Lease();
    /// The bytes of the row that was taken by `turns[number]`.
    const std::byte* row(std::size_t number) const noexcept;
    /// Files the rows under the turns at which they are due next, one each, instead of dropping them;
    /// `kNever` drops a row. They have a place already, so nothing is evicted.
    void give_back(std::span<const std::uint64_t> turns) && noexcept;

   private:
    friend class RowCache;
    Lease(RowCache* cache, std::vector<Index::node_type> nodes) noexcept;
    RowCache* cache_;  // null once moved from or given back
    std::vector<Index::node_type> nodes_;
  };

  /// Takes the rows of all these turns out of the cache, or, when one of them is not there, none.
  /// Throws std::bad_alloc.
  std::optional<Lease> take(std::span<const std::uint64_t> turns) H5FEED_EXCLUDES(mutex_);

  /// Whether `take` would find them.
  bool contains(std::span<const std::uint64_t> turns) const H5FEED_EXCLUDES(mutex_);

  struct Candidate {
    std::uint64_t turn = 0;
    const std::byte* bytes = nullptr;  ///< `row_bytes` of them, copied
  };
  /// Files what is worth keeping of `rows`, which are in the order of their turns: each takes a free slot, or
  /// that of the row due latest where that is due later. Turns that are filed already, or past, are left
  /// out. Without memory fewer rows are kept. Throws std::bad_alloc, before it changes anything.
  void put(std::span<const Candidate> rows) H5FEED_EXCLUDES(mutex_);

  /// Drops the rows of these turns, those that are there.
  void drop(std::span<const std::uint64_t> turns) noexcept H5FEED_EXCLUDES(mutex_);

  /// From now on turns before `turn` are past: their rows are dropped, none is filed any more.
  void forget_before(std::uint64_t turn) noexcept H5FEED_EXCLUDES(mutex_);

  std::uint64_t capacity_rows() const noexcept { return capacity_rows_; }
  /// Rows that `take` would find.
  std::uint64_t size() const H5FEED_EXCLUDES(mutex_);
  /// Memory in use, bookkeeping included; at most capacity_rows · (row_bytes + kBookkeepingBytes).
  std::uint64_t held_bytes() const H5FEED_EXCLUDES(mutex_);

  /// Walks the whole structure and throws std::logic_error where a state or a sum is wrong. For tests.
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
  std::vector<ByteBuffer>
      slabs_;  // never resized; one is filled in before the first of its slots is given out
  Index index_ H5FEED_GUARDED_BY(mutex_);
  std::vector<Index::node_type> free_ H5FEED_GUARDED_BY(mutex_);  // within the capacity reserved
  std::uint32_t slots_ H5FEED_GUARDED_BY(mutex_) = 0;             // that exist: in any state
  std::uint32_t out_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t past_ H5FEED_GUARDED_BY(mutex_) = 0;  // turns before this one are past
};

}  // namespace h5feed
