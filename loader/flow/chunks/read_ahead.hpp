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

/// Keeps up to `depth` chunks of the agenda in flight. Starts its threads after the first read that made a
/// worker wait for storage, so a file in the page cache never needs them. Thread-safe.
class ReadAhead {
 public:
  /// Usual maximum number of reader threads, for any `depth`.
  static constexpr std::size_t kMaxThreads = 8;
  /// The same with self-tuning, which has workers for the CPUs and readers for the storage.
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
    ThreadClocks* clocks = nullptr;  ///< Clocks that the reader threads enlist in; null: none
    std::size_t max_threads = kMaxThreads;
  };

  /// Starts no thread yet. Fetches at most `depth` chunks ahead; 0 disables fetching ahead.
  ReadAhead(Parts parts, std::size_t depth);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Does what `stop` does.
  ~ReadAhead() { stop(); }

  /// Stops the agenda, ends the reader threads and blocks until their current reads end. No thread but these
  /// may use the ReadAhead meanwhile or later.
  void stop() noexcept;

  /// Records whether a read made its worker wait for storage. Starts the reader threads if it pays off; if
  /// none can be started, the workers go on alone.
  void note(bool slept) H5FEED_EXCLUDES(mutex_);

 private:
  void start() H5FEED_EXCLUDES(mutex_);
  void work();
  void fetch(ChunkKey key);
  std::size_t read(const ChunkReader& reader, std::uint64_t chunk, ByteBuffer& buffer);

  const Parts parts_;
  const std::size_t num_threads_;
  Mutex mutex_;
  bool started_ H5FEED_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they use what is above. Filled once, by `start`
};

}  // namespace h5feed
