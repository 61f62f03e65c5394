// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/read_ahead.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "flow/measure/sleep_probe.hpp"

namespace h5feed {

ReadAhead::ReadAhead(Parts parts) : parts_(std::move(parts)) {}

void ReadAhead::set_depth(std::size_t depth) {
  {
    const MutexLock lock(mutex_);
    num_threads_ = std::min(depth, parts_.max_threads);
  }
  parts_.agenda.set_depth(depth);
}

// A reader thread may still call `note` and `start`, which then does nothing.
void ReadAhead::stop() noexcept {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  parts_.agenda.stop();
  threads_.clear();
}

void ReadAhead::note(bool slept) {
  if (parts_.agenda.note_read(slept)) start();
}

void ReadAhead::start() {
  const MutexLock lock(mutex_);
  if (stopped_) return;
  try {
    while (threads_.size() < num_threads_) threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    num_threads_ = threads_.size();  // these go on alone
  }
}

void ReadAhead::work() {
  const ThreadClocks::Enlisted enlisted(parts_.clocks);
  while (const std::optional<ChunkKey> key = parts_.agenda.next_to_read()) fetch(*key);
}

void ReadAhead::fetch(ChunkKey key) {
  const ChunkReader& reader = *parts_.readers[key.field];
  ByteBuffer buffer;
  std::size_t bytes = 0;
  try {
    // An earlier batch may have loaded the chunk since it was announced, or it may still be cached from
    // before.
    if (!parts_.in_memory(key) && reader.stored_bytes(key.chunk) > 0) {
      if (reader.stored_decoded(key.chunk)) {
        parts_.load_stored(key);
      } else {
        bytes = read(reader, key.chunk, buffer);
      }
    }
  } catch (const std::exception&) {
    // The worker reads again, and its error reaches the batch that needs the chunk.
  }
  parts_.agenda.fetched(key, std::move(buffer), bytes);
}

// Returns the number of bytes read. Throws FileError, std::bad_alloc.
std::size_t ReadAhead::read(const ChunkReader& reader, std::uint64_t chunk, ByteBuffer& buffer) {
  const auto bytes = static_cast<std::size_t>(reader.stored_bytes(chunk));
  const SleepProbe probe;
  const CountedRetries retries(parts_.counters);
  buffer = parts_.agenda.buffer(static_cast<std::size_t>(reader.max_stored_bytes()));
  const ReadCost cost = reader.fetch_chunk(chunk, buffer.span().first(bytes));
  const bool slept = probe.slept();
  count_read(parts_.counters, cost);
  Counters::add(parts_.counters.fetch_ns, cost.read_ns);
  if (slept) Counters::add(parts_.counters.fetch_wait_ns, cost.read_ns);
  parts_.agenda.note_read(slept);
  return bytes;
}

}  // namespace h5feed
