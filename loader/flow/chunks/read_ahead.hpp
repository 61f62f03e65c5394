// SPDX-License-Identifier: Apache-2.0
// Threads that fetch stored bytes while the workers decode.
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
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Keeps up to `depth` chunks of the agenda in flight. Its threads start at the first read that made a
/// worker wait for the storage: a file in the page cache never needs them. Thread-safe.
class ReadAhead {
 public:
  /// Most threads of a loader beside its workers, however large `depth` is.
  static constexpr std::size_t kMaxThreads = 8;

  /// What it works with. All outlive it.
  struct Parts {
    ChunkAgenda& agenda;
    /// Whether the visits of a chunk need nothing from the file: then it is not fetched.
    std::function<bool(ChunkKey)> in_memory;
    std::vector<const ChunkReader*> readers;  ///< of fields that go through the cache, else null
    Counters& counters;
    /// Loads a chunk whose stored bytes need no decoding: straight to where they are wanted.
    std::function<void(ChunkKey)> load_stored;
  };

  ReadAhead(Parts parts, std::size_t depth);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Waits for the reads that run now.
  ~ReadAhead();

  /// Every read of a worker is reported here: whether it made the worker sleep. Where no thread can be
  /// started the workers go on alone.
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
