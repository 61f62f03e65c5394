#include "flow/read_ahead.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/sleep_probe.hpp"

namespace h5feed {

ReadAhead::ReadAhead(const Parts& parts, std::size_t depth)
    : parts_(parts), num_threads_(std::min(depth, kMaxThreads)) {}

ReadAhead::~ReadAhead() { parts_.agenda.stop(); }

void ReadAhead::note(bool slept) {
  if (parts_.agenda.note_read(slept)) start();
}

void ReadAhead::start() {
  const MutexLock lock(mutex_);
  if (std::exchange(started_, true)) return;
  try {
    while (threads_.size() < num_threads_) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
  }
}

void ReadAhead::work() {
  while (const std::optional<ChunkKey> key = parts_.agenda.next_to_read()) fetch(*key);
}

void ReadAhead::fetch(ChunkKey key) {
  const ChunkReader& reader = *parts_.readers[key.field];
  ByteBuffer buffer;
  std::size_t bytes = 0;
  ReadCost cost;
  const SleepProbe probe;
  try {
    // Loaded for an earlier batch since it was announced, or before and still there.
    const std::uint64_t stored_bytes = parts_.cache.contains(key) ? 0 : reader.stored_bytes(key.chunk);
    if (stored_bytes > 0) {
      buffer = parts_.agenda.buffer(static_cast<std::size_t>(stored_bytes));
      cost = reader.fetch_chunk(key.chunk, buffer.span().first(static_cast<std::size_t>(stored_bytes)));
      bytes = static_cast<std::size_t>(stored_bytes);
    }
  } catch (const std::exception&) {
    // The worker reads again, and its error reaches the batch that needs the chunk.
    bytes = 0;
  }
  if (bytes > 0) parts_.agenda.note_read(probe.slept());
  count_read(parts_.counters, cost);
  parts_.agenda.fetched(key, std::move(buffer), bytes);
}

}  // namespace h5feed
