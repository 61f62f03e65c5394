// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/preload.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_units.hpp"
#include "flow/chunks/batch_job.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "plan/group_order.hpp"

namespace h5feed {
namespace {

constexpr std::chrono::seconds kSayEvery(5);

struct Wanted {
  ChunkKey key;
  const ChunkReader* reader;
};

std::vector<Wanted> wanted_chunks(const DatasetState& dataset, const SampleSubset* chosen) {
  std::vector<Wanted> wanted;
  const auto add = [&](std::uint32_t number, const Field& field) {
    if (field.is_resident()) return;
    const std::uint64_t pieces = field.map.pieces();
    // A subset lists samples; if several samples share a row, load all rows.
    const SampleSubset* const own = field.samples_per_row == 1 ? chosen : nullptr;
    for (const ChunkGroup& group : chunk_groups(field.map.rows(), own)) {
      for (std::uint64_t chunk = group.chunk * pieces; chunk < (group.chunk + 1) * pieces; ++chunk) {
        if (field.map.samples_in(chunk) > 0) wanted.push_back({{number, chunk}, field.reader.get()});
      }
    }
  };
  for (std::uint32_t number = 0; number < dataset.num_fields(); ++number) {
    if (const Field* const field = dataset.field(number)) add(number, *field);
  }
  return wanted;
}

// Logs the progress every 5 s, from the thread that loads a chunk then.
class Progress {
 public:
  explicit Progress(std::uint64_t total_bytes) : total_bytes_(total_bytes) {}

  void add(std::uint64_t bytes) {
    const std::uint64_t done = done_bytes_.fetch_add(bytes) + bytes;
    const auto now = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    if (now < next_) return;
    next_ = now + kSayEvery;
    log(LogLevel::info,
        fmt::format("preload: {} of {} decoded", format_bytes(done), format_bytes(total_bytes_)));
  }

 private:
  const std::uint64_t total_bytes_;
  std::atomic<std::uint64_t> done_bytes_ = 0;
  Mutex mutex_;
  std::chrono::steady_clock::time_point next_ H5FEED_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now() + kSayEvery;
};

// Returns false if the cache is full.
bool load(const Wanted& chunk, ChunkCache& cache, Counters& counters, ReadScratch& scratch) {
  const std::uint64_t bytes = chunk.reader->chunk_bytes();
  if (cache.contains(chunk.key)) return true;
  if (!cache.has_room(bytes)) return false;
  ChunkCache::Lookup found = cache.lookup(chunk.key, bytes, [] {});
  auto* const duty = std::get_if<ChunkCache::Load>(&found);
  if (duty == nullptr) return true;
  try {
    count_read(counters, chunk.reader->read_chunk(chunk.key.chunk, duty->buffer(), scratch));
  } catch (const Error&) {
    return true;
  }
  Counters::add(counters.bytes_decoded, bytes);
  Counters::add(counters.cache_misses, 1);
  if (chunk.key.field == kData) Counters::add(counters.chunk_loads, 1);
  std::move(*duty).publish();
  return true;
}

}  // namespace

void preload_chunks(const DatasetState& dataset, const SampleSubset* chosen, ChunkCache& cache,
                    Counters& counters, unsigned threads) {
  const std::vector<Wanted> wanted = wanted_chunks(dataset, chosen);
  std::uint64_t total_bytes = 0;
  for (const Wanted& chunk : wanted) total_bytes += chunk.reader->chunk_bytes();
  Progress progress(total_bytes);
  std::atomic<std::size_t> next = 0;
  Mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      ReadScratch scratch;
      for (std::size_t i = next++; i < wanted.size(); i = next++) {
        if (!load(wanted[i], cache, counters, scratch)) return;
        progress.add(wanted[i].reader->chunk_bytes());
      }
    } catch (...) {
      const MutexLock lock(mutex);
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 1; i < threads; ++i) workers.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace h5feed
