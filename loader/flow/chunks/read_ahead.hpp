// SPDX-License-Identifier: Apache-2.0
// Threads that fetch stored bytes while workers decode.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_agenda.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/thread_clocks.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Keeps a limited number of chunks of the agenda in flight, its depth. Starts its threads after the first
/// read that made a worker wait for storage, so a file in the page cache never needs them. Thread-safe.
class ReadAhead {
 public:
  /// Usual maximum number of reader threads, for any depth.
  static constexpr std::size_t kMaxThreads = 8;
  /// Maximum number of reader threads with self-tuning, which has workers for the CPUs and readers for the
  /// storage.
  static constexpr std::size_t kMaxTunedThreads = 64;

  /// Dependencies; all must outlive the ReadAhead.
  struct Parts {
    ChunkAgenda& agenda;
    /// Whether all visits of a chunk can be served from memory; such a chunk is not fetched.
    std::function<bool(ChunkKey)> in_memory;
    std::vector<const ChunkReader*> readers;  ///< One per field; null if absent, in memory or ragged
    Counters& counters;
    /// Loads a chunk whose stored bytes need no decoding, directly into the cache.
    std::function<void(ChunkKey)> load_stored;
    ThreadClocks* clocks = nullptr;         ///< Clocks that the reader threads enlist in; null: none
    std::size_t max_threads = kMaxThreads;  ///< Most reader threads, for any depth
  };

  /// Starts no thread, and fetches nothing before `set_depth`.
  explicit ReadAhead(Parts parts);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Does what `stop` does.
  ~ReadAhead() { stop(); }

  /// Stops the agenda, ends the reader threads and blocks until their current reads end. No thread but these
  /// may use the ReadAhead meanwhile or later.
  void stop() noexcept H5FEED_EXCLUDES(mutex_);

  /// Fetches at most `depth` chunks ahead from now on, on as many threads if they are needed; 0 fetches none.
  void set_depth(std::size_t depth) H5FEED_EXCLUDES(mutex_);

  /// Records whether a read made its worker wait for storage. Starts the reader threads if it pays off; if
  /// none can be started, the workers go on alone.
  void note(bool slept) H5FEED_EXCLUDES(mutex_);

 private:
  void start() H5FEED_EXCLUDES(mutex_);
  void work();
  void fetch(ChunkKey key);
  std::size_t read(const ChunkReader& reader, std::uint64_t chunk, ByteBuffer& buffer);

  const Parts parts_;
  Mutex mutex_;
  std::size_t num_threads_ H5FEED_GUARDED_BY(mutex_) = 0;
  bool stopped_ H5FEED_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they use what is above. Only `start` adds to them
};

}  // namespace h5feed
