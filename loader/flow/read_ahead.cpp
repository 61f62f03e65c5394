#include "flow/read_ahead.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/sleep_probe.hpp"

namespace h5feed {

ReadAhead::ReadAhead(ChunkAgenda& agenda, std::array<const ChunkReader*, kFields> readers, std::size_t depth,
                     Counters& counters)
    : agenda_(agenda), readers_(readers), num_threads_(std::min(depth, kMaxThreads)), counters_(counters) {}

ReadAhead::~ReadAhead() { agenda_.stop(); }

void ReadAhead::note(bool slept) {
  if (agenda_.note_read(slept)) start();
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
  while (const std::optional<ChunkKey> key = agenda_.next_to_read()) fetch(*key);
}

void ReadAhead::fetch(ChunkKey key) {
  const ChunkReader& reader = *readers_[key.field];
  ByteBuffer buffer;
  std::size_t bytes = 0;
  ReadCost cost;
  const SleepProbe probe;
  try {
    const std::uint64_t stored_bytes = reader.stored_bytes(key.chunk);
    if (stored_bytes > 0) {
      buffer = agenda_.buffer(static_cast<std::size_t>(stored_bytes));
      cost = reader.fetch_chunk(key.chunk, buffer.span().first(static_cast<std::size_t>(stored_bytes)));
      bytes = static_cast<std::size_t>(stored_bytes);
    }
  } catch (const std::exception&) {
    // The worker reads again, and its error reaches the batch that needs the chunk.
    bytes = 0;
  }
  if (bytes > 0) agenda_.note_read(probe.slept());
  count_read(counters_, cost);
  agenda_.fetched(key, std::move(buffer), bytes);
}

}  // namespace h5feed
