// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/preload.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/mutex.hpp"
#include "base/threads/share_out.hpp"
#include "h5feed/log.hpp"
#include "plan/group_order.hpp"

namespace h5feed {
namespace {

constexpr std::chrono::seconds kSayEvery(5);

struct Wanted {
  ChunkKey key;
  std::uint64_t bytes;  // decoded
};

std::vector<Wanted> wanted_chunks(const DatasetState& dataset, const SampleSubset* chosen) {
  std::vector<Wanted> wanted;
  const auto add = [&](std::uint32_t number, const Field& field) {
    if (field.is_resident()) return;
    const std::uint64_t pieces = field.map.pieces();
    // A subset lists samples; if several samples share a row, load all rows.
    const SampleSubset* const own = field.belonging.one_each() ? chosen : nullptr;
    for (const ChunkGroup& group : chunk_groups(field.map.rows(), own)) {
      for (std::uint64_t chunk = group.chunk * pieces; chunk < (group.chunk + 1) * pieces; ++chunk) {
        if (field.map.in_use(chunk)) wanted.push_back({{number, chunk}, field.reader->chunk_bytes()});
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
    const auto now = Clock::now();
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
  Clock::time_point next_ H5FEED_GUARDED_BY(mutex_) = Clock::now() + kSayEvery;
};

}  // namespace

void preload_chunks(const DatasetState& dataset, const SampleSubset* chosen, ChunkLoader& loader,
                    unsigned threads) {
  check_interrupt();  // before other threads can take all chunks
  const std::vector<Wanted> wanted = wanted_chunks(dataset, chosen);
  std::uint64_t total_bytes = 0;
  for (const Wanted& chunk : wanted) total_bytes += chunk.bytes;
  Progress progress(total_bytes);
  std::atomic<bool> full = false;  // the first chunk without room ends it for all threads
  share_out(wanted.size(), threads, [&] {
    return [&](std::uint64_t i) {
      if (full) return;
      check_interrupt();
      if (loader.preload(wanted[i].key)) {
        progress.add(wanted[i].bytes);
      } else {
        full = true;
      }
    };
  });
}

}  // namespace h5feed
