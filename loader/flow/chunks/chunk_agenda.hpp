// SPDX-License-Identifier: Apache-2.0
// The chunks that batches in preparation still need, and which of them have been read ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/mutex.hpp"
#include "cache/chunk_cache.hpp"
#include "flow/chunks/batch_job.hpp"

namespace h5feed {

/// Visit number `number` of a job.
struct VisitRef {
  std::shared_ptr<BatchJob> job;
  std::uint32_t number = 0;

  const Visit& visit() const noexcept { return job->visits[number]; }
  bool operator==(const VisitRef&) const = default;
};

/// Every visit that goes through the cache is on the agenda from the planning of its batch until one
/// thread claims it: its own task, or the thread that has just loaded the chunk and copies the rows of
/// all visits out of it while it is warm. Whoever claims a visit does it, so each is done once.
///
/// A chunk on the agenda is in one of these states, and is forgotten when its last visit is claimed:
///
///   1 announced  nobody reads its stored bytes yet
///   2 reading    a reader thread fetches them
///   3 fetched    they wait in memory for the thread that will decode them
///   4 taken      a worker takes care of it, with or without fetched bytes
///
/// At most `depth` chunks are in states 2 and 3. Reader threads work only while reads have lately made their
/// threads sleep: bytes in the page cache are read faster by the worker that decodes them. Thread-safe; only
/// `next_to_read` waits.
class ChunkAgenda {
 public:
  /// Called when a chunk that was being fetched is there, or could not be read. Must not throw.
  using Resume = std::function<void()>;

  /// Fetches at most `depth` chunks ahead; 0 never any.
  explicit ChunkAgenda(std::size_t depth) : depth_(depth) { spare_.reserve(depth); }
  ChunkAgenda(const ChunkAgenda&) = delete;
  ChunkAgenda& operator=(const ChunkAgenda&) = delete;

  /// Puts the visits of a planned job on the agenda.
  void add(const std::shared_ptr<BatchJob>& job) H5FEED_EXCLUDES(mutex_);

  enum class Turn : std::uint8_t {
    go,       ///< look the chunk up; then claim the visit
    claimed,  ///< another thread did or does the visit
    reading   ///< the chunk is being fetched: `resume` was kept and will be called
  };
  /// A worker comes to a visit. After `go` no reader thread starts on the chunk.
  Turn begin(const VisitRef& visit, const Resume& resume) H5FEED_EXCLUDES(mutex_);

  /// Looks up the chunk of a visit for which `begin` said `go`: `bytes` of `cache`. Gives a load only while
  /// nobody has claimed the visit, so that no chunk is loaded for nothing. Pending: another thread did the
  /// visit, or `resume` was kept and will be called.
  ChunkCache::Lookup look_up(const VisitRef& visit, ChunkCache& cache, std::size_t bytes,
                             const Resume& resume) const H5FEED_EXCLUDES(mutex_);

  /// Takes one visit off the agenda; false when another thread was faster.
  bool claim(const VisitRef& visit) H5FEED_EXCLUDES(mutex_);

  /// As `claim`, for a visit that needed no chunk. The chunk's other visits may need it yet: where a worker
  /// had taken care of it, it is announced anew.
  bool claim_without_chunk(const VisitRef& visit) H5FEED_EXCLUDES(mutex_);

  /// The visits of a chunk that nobody has claimed. Throws std::bad_alloc.
  std::vector<VisitRef> unclaimed(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  /// Takes all visits of a chunk off the agenda.
  std::vector<VisitRef> claim_all(ChunkKey key) H5FEED_EXCLUDES(mutex_);

  /// Exchanges `raw` for the buffer that begins with the chunk's fetched bytes, and returns their number;
  /// 0 where there are none.
  std::size_t take_fetched(ChunkKey key, ByteBuffer& raw) H5FEED_EXCLUDES(mutex_);

  /// Whether a read made its thread wait for the storage; decides if fetching ahead pays. True when
  /// reader threads have work now.
  bool note_read(bool blocked) H5FEED_EXCLUDES(mutex_);

  /// Waits for the chunk that is due first among those announced; empty when stopped.
  std::optional<ChunkKey> next_to_read() H5FEED_EXCLUDES(mutex_);

  /// Memory for the bytes of a chunk that `next_to_read` gave, at least `bytes` long. Throws std::bad_alloc.
  ByteBuffer buffer(std::size_t bytes) H5FEED_EXCLUDES(mutex_);

  /// Ends the read of a chunk that `next_to_read` gave, with its bytes in `buffer`; `bytes` 0 = none,
  /// the worker then reads for itself.
  void fetched(ChunkKey key, ByteBuffer buffer, std::size_t bytes) noexcept H5FEED_EXCLUDES(mutex_);

  /// Ends all waiting, now and later.
  void stop() H5FEED_EXCLUDES(mutex_);

  /// Whether a batch in preparation still needs the chunk.
  bool contains(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  /// Whether nobody has claimed the visit.
  bool is_unclaimed(const VisitRef& visit) const H5FEED_EXCLUDES(mutex_);

  /// Chunks with unclaimed visits. For tests.
  std::size_t size() const H5FEED_EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { announced, reading, fetched, taken };
  using Deadline = std::pair<std::uint64_t, std::uint32_t>;  // ticket, visit: who needs the chunk first

  struct Entry {
    State state = State::announced;
    Deadline deadline;
    std::vector<VisitRef> visits;
    std::vector<Resume> waiting;  // non-empty in state 2 only
    ByteBuffer buffer;            // in state 3 only
    std::size_t bytes = 0;
  };
  using Entries = std::unordered_map<ChunkKey, Entry, ChunkKeyHash>;

  Entries::iterator take_off(const VisitRef& visit) H5FEED_REQUIRES(mutex_);
  void forget(Entries::iterator at) H5FEED_REQUIRES(mutex_);
  void end_flight(ByteBuffer buffer) noexcept H5FEED_REQUIRES(mutex_);

  // Reads that went without waiting before fetching ahead stops: more than one batch needs as a rule,
  // so that the kernel's own read-ahead between two waits does not end it.
  static constexpr unsigned kPatience = 64;

  const std::size_t depth_;
  mutable Mutex mutex_;
  CondVar work_;
  Entries entries_ H5FEED_GUARDED_BY(mutex_);
  std::map<Deadline, ChunkKey> announced_ H5FEED_GUARDED_BY(mutex_);  // entries in state 1
  std::vector<ByteBuffer> spare_ H5FEED_GUARDED_BY(mutex_);           // at most `depth`
  std::size_t in_flight_ H5FEED_GUARDED_BY(mutex_) = 0;  // in states 2 and 3, forgotten ones included
  unsigned patience_ H5FEED_GUARDED_BY(mutex_) = 0;      // > 0: reads have lately waited
  bool stopped_ H5FEED_GUARDED_BY(mutex_) = false;
};

}  // namespace h5feed
