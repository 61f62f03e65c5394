// SPDX-License-Identifier: Apache-2.0
// Tracks the chunks that batches in preparation still need, and which of them have been read ahead.
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
/// At most `depth` chunks are in states 2 and 3. Reader threads work only while recent reads had to wait for
/// storage: bytes in the page cache are read faster by the worker that decodes them. Thread-safe; only
/// `next_to_read` blocks.
class ChunkAgenda {
 public:
  /// Called once the chunk being fetched is in memory, or could not be read. Must not throw.
  using Wake = std::function<void()>;

  /// Fetches at most `depth` chunks ahead, which `set_depth` may lower; 0 disables fetching ahead.
  explicit ChunkAgenda(std::size_t depth) : most_depth_(depth), depth_(depth) { spare_.reserve(depth); }
  ChunkAgenda(const ChunkAgenda&) = delete;
  ChunkAgenda& operator=(const ChunkAgenda&) = delete;

  /// Puts the visits of a planned job on the agenda. Throws std::bad_alloc; none of them is then on it.
  void add(const std::shared_ptr<BatchJob>& job) H5FEED_EXCLUDES(mutex_);

  enum class Turn : std::uint8_t {
    go,       ///< Look the chunk up, then claim the visit
    claimed,  ///< Another thread has done or is doing the visit
    reading   ///< The chunk is being fetched; `wake` is kept and will be called
  };
  /// Starts a worker on a visit. After `go`, no reader thread starts on the chunk. Throws std::bad_alloc if
  /// there is no memory to keep `wake`.
  Turn begin(const VisitRef& visit, const Wake& wake) H5FEED_EXCLUDES(mutex_);

  /// Looks up the chunk of a visit for which `begin` returned `go`: `bytes` of `cache`. Returns a load only
  /// while nobody has claimed the visit, so that no chunk is loaded in vain. Pending: another thread did the
  /// visit, or `wake` was kept and will be called. Throws std::bad_alloc.
  ChunkCache::Lookup look_up(const VisitRef& visit, ChunkCache& cache, std::size_t bytes,
                             const Wake& wake) const H5FEED_EXCLUDES(mutex_);

  /// Claims one visit. Returns false if another thread has claimed it.
  bool claim(const VisitRef& visit) noexcept H5FEED_EXCLUDES(mutex_);

  /// Claims one visit that needed no chunk. Returns false if another thread has claimed it. If a worker had
  /// taken the chunk and other visits still need it, the chunk is announced again, unless memory lacks.
  bool claim_without_chunk(const VisitRef& visit) noexcept H5FEED_EXCLUDES(mutex_);

  /// Returns the unclaimed visits of a chunk. Throws std::bad_alloc.
  std::vector<VisitRef> unclaimed(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  /// Claims all unclaimed visits of a chunk and returns them.
  std::vector<VisitRef> claim_all(ChunkKey key) noexcept H5FEED_EXCLUDES(mutex_);

  /// Exchanges `raw` for the buffer that starts with the chunk's fetched bytes, and returns their number.
  /// Returns 0 and leaves `raw` if the chunk was not fetched.
  std::size_t take_fetched(ChunkKey key, ByteBuffer& raw) H5FEED_EXCLUDES(mutex_);

  /// Records whether a read waited for storage, which decides if fetching ahead pays off. Returns true if
  /// reader threads have work now.
  bool note_read(bool blocked) H5FEED_EXCLUDES(mutex_);

  /// Blocks until a chunk is announced that may be fetched, and returns the one due first; nullopt once
  /// stopped.
  std::optional<ChunkKey> next_to_read() H5FEED_EXCLUDES(mutex_);

  /// Returns a buffer of at least `bytes` bytes for a chunk from `next_to_read`. Throws std::bad_alloc.
  ByteBuffer buffer(std::size_t bytes) H5FEED_EXCLUDES(mutex_);

  /// Ends the read of a chunk from `next_to_read` and calls the kept `Wake` functions. `buffer` starts with
  /// the chunk's `bytes` bytes; if `bytes` is 0, the worker reads the chunk itself.
  void fetched(ChunkKey key, ByteBuffer buffer, std::size_t bytes) noexcept H5FEED_EXCLUDES(mutex_);

  /// Fetches at most `depth` chunks ahead from now on, and at most as many as the constructor was told.
  void set_depth(std::size_t depth) H5FEED_EXCLUDES(mutex_);

  /// Makes every `next_to_read`, current or later, return nullopt.
  void stop() H5FEED_EXCLUDES(mutex_);

  /// Returns whether a batch in preparation still needs the chunk.
  bool contains(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  /// Returns whether nobody has claimed the visit.
  bool is_unclaimed(const VisitRef& visit) const H5FEED_EXCLUDES(mutex_);

  /// Returns the number of chunks with unclaimed visits. For tests.
  std::size_t size() const H5FEED_EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { announced, reading, fetched, taken };
  using Deadline = std::pair<std::uint64_t, std::uint32_t>;  // ticket, visit: who needs the chunk first

  struct Entry {
    State state = State::announced;
    Deadline deadline;
    std::vector<VisitRef> visits;
    std::vector<Wake> waiting;  // non-empty in state 2 only
    ByteBuffer buffer;          // in state 3 only
    std::size_t bytes = 0;
  };
  using Entries = std::unordered_map<ChunkKey, Entry, ChunkKeyHash>;

  void add_visit(const VisitRef& ref) H5FEED_REQUIRES(mutex_);
  Entries::iterator take_off(const VisitRef& visit) H5FEED_REQUIRES(mutex_);
  void forget(Entries::iterator at) H5FEED_REQUIRES(mutex_);
  void end_flight(ByteBuffer buffer) noexcept H5FEED_REQUIRES(mutex_);

  // Fetching ahead stops after this many reads that did not wait: more than one batch usually needs, so that
  // the kernel's own read-ahead between two waits does not end it.
  static constexpr unsigned kPatience = 64;

  const std::size_t most_depth_;
  mutable Mutex mutex_;
  CondVar work_;
  Entries entries_ H5FEED_GUARDED_BY(mutex_);
  std::map<Deadline, ChunkKey> announced_ H5FEED_GUARDED_BY(mutex_);  // chunks in state 1
  std::size_t depth_ H5FEED_GUARDED_BY(mutex_);                       // at most `most_depth_`
  std::vector<ByteBuffer> spare_ H5FEED_GUARDED_BY(mutex_);           // at most `most_depth_`
  std::size_t in_flight_ H5FEED_GUARDED_BY(mutex_) = 0;  // chunks in states 2 and 3, forgotten ones included
  unsigned patience_ H5FEED_GUARDED_BY(mutex_) = 0;      // > 0 if recent reads waited
  bool stopped_ H5FEED_GUARDED_BY(mutex_) = false;
};

}  // namespace h5feed
