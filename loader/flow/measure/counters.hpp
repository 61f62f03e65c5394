// SPDX-License-Identifier: Apache-2.0
// Counters of a loader, incremented by its worker threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "h5feed/stats.hpp"
#include "store/format/retrying_source.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Totals since construction. Thread-safe. Each counter is exact, but updates are relaxed: a reader may see
/// the counters at slightly different times.
struct Counters {
  using Counter = std::atomic<std::uint64_t>;
  Counter batches = 0, samples = 0, samples_echoed = 0, bytes_delivered = 0, errors = 0;
  Counter samples_skipped = 0, samples_replaced = 0, bad_chunks = 0, read_retries = 0;
  Counter cache_hits = 0, cache_misses = 0, chunk_loads = 0;
  Counter read_calls = 0, bytes_read = 0, bytes_decoded = 0, rows_direct = 0, fallback_chunks = 0;
  Counter read_ns = 0, decode_ns = 0, gather_ns = 0, transform_ns = 0, transfer_ns = 0;
  Counter wait_ns = 0, wait_gpu_ns = 0, wait_transfer_ns = 0;
  Counter wait_read_ns = 0, wait_decode_ns = 0, wait_gather_ns = 0, wait_transform_ns = 0;
  Counter fetch_ns = 0;  ///< Part of `read_ns` that reader threads spent ahead of decoding
  // For self-tuning only, not part of LoaderStats.
  Counter busy_ns = 0;          ///< Time that workers spent on tasks, waits for storage included
  Counter completed = 0;        ///< Batches that workers completed
  Counter storage_wait_ns = 0;  ///< Time of reads that had to wait for storage, of tasks
  Counter fetch_wait_ns = 0;    ///< The same of reads ahead of decoding

  /// Adds `value` to `counter`. Thread-safe.
  static void add(Counter& counter, std::uint64_t value) noexcept {
    counter.fetch_add(value, std::memory_order_relaxed);
  }
};

/// Adds the cost of one read to the counters. Thread-safe.
inline void count_read(Counters& counters, const ReadCost& cost) noexcept {
  if (cost.bytes_read > 0) Counters::add(counters.read_calls, 1);
  Counters::add(counters.bytes_read, cost.bytes_read);
  Counters::add(counters.read_ns, cost.read_ns);
  Counters::add(counters.decode_ns, cost.decode_ns);
  if (cost.fallback) Counters::add(counters.fallback_chunks, 1);
}

/// Returns the current values of the counters. Members of `LoaderStats` that are not counters stay at their
/// default.
inline LoaderStats snapshot(const Counters& counters) noexcept {
  LoaderStats stats;
  stats.batches = counters.batches;
  stats.samples = counters.samples;
  stats.samples_echoed = counters.samples_echoed;
  stats.bytes_delivered = counters.bytes_delivered;
  stats.errors = counters.errors;
  stats.samples_skipped = counters.samples_skipped;
  stats.samples_replaced = counters.samples_replaced;
  stats.bad_chunks = counters.bad_chunks;
  stats.read_retries = counters.read_retries;
  stats.cache_hits = counters.cache_hits;
  stats.cache_misses = counters.cache_misses;
  stats.chunk_loads = counters.chunk_loads;
  stats.read_calls = counters.read_calls;
  stats.bytes_read = counters.bytes_read;
  stats.bytes_decoded = counters.bytes_decoded;
  stats.rows_direct = counters.rows_direct;
  stats.fallback_chunks = counters.fallback_chunks;
  stats.read_ns = counters.read_ns;
  stats.decode_ns = counters.decode_ns;
  stats.gather_ns = counters.gather_ns;
  stats.transform_ns = counters.transform_ns;
  stats.transfer_ns = counters.transfer_ns;
  stats.wait_ns = counters.wait_ns;
  stats.wait_read_ns = counters.wait_read_ns;
  stats.wait_decode_ns = counters.wait_decode_ns;
  stats.wait_gather_ns = counters.wait_gather_ns;
  stats.wait_transform_ns = counters.wait_transform_ns;
  stats.wait_gpu_ns = counters.wait_gpu_ns;
  stats.wait_transfer_ns = counters.wait_transfer_ns;
  return stats;
}

/// Measures nanoseconds since its construction.
class Stopwatch {
 public:
  std::uint64_t elapsed_ns() const noexcept { return now_ns() - start_ns_; }

 private:
  std::uint64_t start_ns_ = now_ns();
};

/// Time that the calling thread has spent in the user's `transform`, in nanoseconds.
inline std::uint64_t& transform_ns_of_thread() noexcept {
  thread_local std::uint64_t ns = 0;
  return ns;
}

/// Adds its lifetime to `transform_ns_of_thread`. Construct and destroy it on the same thread.
class TransformTime {
 public:
  TransformTime() = default;
  TransformTime(const TransformTime&) = delete;
  TransformTime& operator=(const TransformTime&) = delete;
  ~TransformTime() { transform_ns_of_thread() += watch_.elapsed_ns(); }

 private:
  Stopwatch watch_;
};

/// Adds the lifetime of the object to the counters of gathering, except for the time of the thread in the
/// user's `transform`, which it adds to that of transforms. Borrows the counters. Construct and destroy it on
/// the same thread.
class TimeGather {
 public:
  explicit TimeGather(Counters& counters) noexcept : counters_(counters) {}
  TimeGather(const TimeGather&) = delete;
  TimeGather& operator=(const TimeGather&) = delete;
  ~TimeGather() {
    const std::uint64_t transform = transform_ns_of_thread() - before_;
    const std::uint64_t other = transform + not_gathering_;
    const std::uint64_t all = watch_.elapsed_ns();
    Counters::add(counters_.gather_ns, all > other ? all - other : 0);
    if (transform > 0) Counters::add(counters_.transform_ns, transform);
  }

  /// Takes `ns` of other work, such as reads, out of the time.
  void exclude(std::uint64_t ns) noexcept { not_gathering_ += ns; }

 private:
  Counters& counters_;
  const std::uint64_t before_ = transform_ns_of_thread();
  std::uint64_t not_gathering_ = 0;
  Stopwatch watch_;
};

/// Adds the lifetime of the object, in nanoseconds, to a counter. Borrows the counter.
class TimeInto {
 public:
  explicit TimeInto(Counters::Counter& counter) noexcept : counter_(counter) {}
  TimeInto(const TimeInto&) = delete;
  TimeInto& operator=(const TimeInto&) = delete;
  ~TimeInto() { Counters::add(counter_, watch_.elapsed_ns()); }

 private:
  Counters::Counter& counter_;
  Stopwatch watch_;
};

/// Adds the reads that the thread repeats during the lifetime of the object to a counter, also if they fail
/// in the end. Borrows the counters. Construct and destroy it on the same thread.
class CountedRetries {
 public:
  explicit CountedRetries(Counters& counters) noexcept : counters_(counters) {}
  CountedRetries(const CountedRetries&) = delete;
  CountedRetries& operator=(const CountedRetries&) = delete;
  ~CountedRetries() {
    const std::uint64_t repeated = read_retries_of_thread() - before_;
    if (repeated > 0) Counters::add(counters_.read_retries, repeated);
  }

 private:
  Counters& counters_;
  const std::uint64_t before_ = read_retries_of_thread();
};

}  // namespace h5feed
