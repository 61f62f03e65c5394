// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/direct_rows.hpp"

#include <algorithm>
#include <optional>

#include "flow/measure/sleep_probe.hpp"

namespace h5feed {
namespace {

// Maximum bytes of rows per direct visit: small enough to spread one batch over all workers, large enough to
// hide the overhead of a task.
constexpr std::size_t kDirectVisitBytes = 512 * 1024;

// Hints stop after this many direct visits that did not wait for storage.
constexpr int kColdPatience = 256;

// Returns how many of the first rows follow each other in the file, within one chunk.
std::size_t neighbours(std::span<const RowAt> rows, const SampleMap& map) {
  std::size_t run = 1;
  while (run < rows.size() && rows[run].row == rows.front().row + run &&
         map.chunk_of(rows[run].row, 0) == map.chunk_of(rows.front().row, 0)) {
    ++run;
  }
  return run;
}

}  // namespace

void DirectRows::plan(BatchJob& job, std::size_t field_number) const {
  const std::size_t rows = job.rows[field_number].size();
  const std::size_t step =
      std::max<std::size_t>(1, kDirectVisitBytes / std::max<std::uint64_t>(1, parts_.stored_row_bytes));
  if (cold_rows_.load(std::memory_order_relaxed) > 0) hint(job.rows[field_number]);
  for (std::size_t first = 0; first < rows; first += step) {
    job.visits.push_back({.field = static_cast<std::uint32_t>(field_number),
                          .first_row = static_cast<std::uint32_t>(first),
                          .num_rows = static_cast<std::uint32_t>(std::min(step, rows - first)),
                          .direct = true});
  }
}

// Hints keep many reads in flight, which fast storage needs; bytes in the page cache need no hints.
void DirectRows::hint(std::span<const RowAt> rows) const {
  while (!rows.empty()) {
    const std::size_t run = neighbours(rows, parts_.field.map);
    parts_.field.reader->hint_rows(rows.front().row, run);
    rows = rows.subspan(run);
  }
}

void DirectRows::note_read(bool slept) const noexcept {
  if (slept) {
    cold_rows_.store(kColdPatience, std::memory_order_relaxed);
  } else if (const int left = cold_rows_.load(std::memory_order_relaxed); left > 0) {
    cold_rows_.store(left - 1, std::memory_order_relaxed);
  }
}

// `read_some(rows, count)` reads some of the first rows, calls `count` with the cost, and returns how many it
// read.
template <typename ReadSome>
void DirectRows::read_visit(const BatchJob& job, const Visit& visit, const ReadSome& read_some) const {
  std::optional<SleepProbe> probe;
  if (parts_.hints) probe.emplace();
  const CountedRetries retries(parts_.counters);
  TimeGather gathering(parts_.counters);
  const std::span rows = std::span(job.rows[visit.field]).subspan(visit.first_row, visit.num_rows);
  std::uint64_t read_ns = 0;
  const auto count = [&](const ReadCost& cost) {
    count_read(parts_.counters, cost);
    read_ns += cost.read_ns;
    gathering.exclude(cost.read_ns + cost.decode_ns);
  };
  for (std::size_t i = 0; i < rows.size();) i += read_some(rows.subspan(i), count);
  Counters::add(parts_.counters.rows_direct, rows.size());
  if (!probe) return;
  const bool slept = probe->slept();
  if (slept) Counters::add(parts_.counters.storage_wait_ns, read_ns);
  note_read(slept);
}

void DirectRows::read(const BatchJob& job, const Visit& visit, std::byte* out, const Place& place,
                      Scratch& scratch) const {
  const ChunkReader& reader = *parts_.field.reader;
  const std::size_t stored_row_bytes = parts_.field.map.row_bytes();
  read_visit(job, visit, [&](std::span<const RowAt> rows, const auto& count) {
    const std::size_t run = neighbours(rows, parts_.field.map);
    const std::span places = rows.first(run);
    if (parts_.as_they_are) {
      scratch.outs.clear();
      for (const RowAt& at : places)
        scratch.outs.emplace_back(out + job.place_of(visit.field, at.position) * parts_.row_bytes,
                                  parts_.row_bytes);
      count(reader.read_rows(places.front().row, run, scratch.outs));
    } else {
      scratch.rows.resize_discard(run * stored_row_bytes);
      const std::span stored = scratch.rows.span().first(run * stored_row_bytes);
      count(reader.read_rows(places.front().row, run, stored));
      for (std::size_t r = 0; r < run; ++r) {
        place(stored.data() + r * stored_row_bytes, places[r].position);
      }
    }
    return run;
  });
}

void DirectRows::read_sparse(const BatchJob& job, const Visit& visit, const SparseReader& reader,
                             const PlaceSparse& place, Scratch& scratch) const {
  read_visit(job, visit, [&](std::span<const RowAt> rows, const auto& count) {
    ReadCost cost;
    const SparseReader::Row row = reader.read_row(rows.front().row, scratch.rows, scratch.sparse, cost);
    count(cost);
    place(row, rows.front().position);
    return std::size_t{1};
  });
}

}  // namespace h5feed
