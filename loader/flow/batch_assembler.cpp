#include "flow/batch_assembler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <span>
#include <utility>
#include <variant>

#include "base/sleep_probe.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Rows read directly are handed to workers in runs of at most this many bytes: small enough to spread
// one batch over all workers, large enough that a task's overhead does not show.
constexpr std::size_t kDirectVisitBytes = 512 * 1024;

// Rows of prepared batches that together exceed the caches near a core are copied past them: written,
// they would push out the chunks that are being decoded, and be gone themselves when they are consumed.
constexpr std::size_t kStreamedRowBytes = 4096;
constexpr std::size_t kStreamedBatchBytes = std::size_t{16} << 20;

// Direct visits that went without waiting for the storage before hints stop.
constexpr int kColdPatience = 256;

/// The rows of a batch that lie in one chunk (in the first of them, where samples span several).
struct ChunkRows {
  std::uint64_t chunk = 0;
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_position = 0;
};

// Labels that wrap around would train a wrong model in silence.
void check_target_range(const Field& target, DType to) {
  if (!target.is_resident()) return;
  const DatasetInfo& info = target.info();
  const auto misfit = first_out_of_range(info.dtype, target.resident.span(), to);
  if (!misfit) return;
  throw OptionError(fmt::format("{}:{}: the target of sample {} does not fit {}; choose a wider target_dtype",
                                info.file, info.path, *misfit / info.row_elements(), name_of(to)));
}

// `rows` are in file order. The groups come in the order in which the batch needs them first: where a
// batch reaches from one window of chunks into the next, the old window's chunks are then visited
// before the new ones push them out of a cache that just holds a window.
std::vector<ChunkRows> rows_by_chunk(const std::vector<RowAt>& rows, const SampleMap& map) {
  std::vector<ChunkRows> groups;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t chunk = map.chunk_of(rows[i].row, 0);
    if (groups.empty() || groups.back().chunk != chunk) groups.push_back({chunk, i, 0, rows[i].position});
    ++groups.back().num_rows;
    groups.back().first_position = std::min(groups.back().first_position, rows[i].position);
  }
  std::ranges::sort(groups, {}, &ChunkRows::first_position);
  return groups;
}

// How many of the first rows follow each other in the file, within one chunk.
std::size_t neighbours(std::span<const RowAt> rows, const SampleMap& map) {
  std::size_t run = 1;
  while (run < rows.size() && rows[run].row == rows.front().row + run &&
         map.chunk_of(rows[run].row, 0) == map.chunk_of(rows.front().row, 0)) {
    ++run;
  }
  return run;
}

std::vector<std::int64_t> batch_shape(std::size_t count, bool batched,
                                      const std::vector<std::int64_t>& sample) {
  std::vector<std::int64_t> shape;
  if (batched) shape.push_back(static_cast<std::int64_t>(count));
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

}  // namespace

BatchAssembler::BatchAssembler(const Parts& parts, const std::optional<Normalize>& normalize)
    : parts_(parts), scratch_pool_(std::make_unique<ScratchPool>(parts.options.concurrent_decodes)) {
  lanes_[kData] = make_lane(kData, parts.format.data_dtype, normalize);
  if (parts.dataset.target) {
    check_target_range(*parts.dataset.target, parts.format.target_dtype);
    lanes_[kTarget] = make_lane(kTarget, parts.format.target_dtype, std::nullopt);
  }
}

BatchAssembler::Lane BatchAssembler::make_lane(std::size_t lane_number, DType to,
                                               const std::optional<Normalize>& normalize) {
  const Field& field = lane_number == kData ? parts_.dataset.data : *parts_.dataset.target;
  const SampleGeometry& geometry = field.geometry;
  RowKernelSpec spec;
  spec.from = field.info().dtype;
  spec.to = to;
  spec.channels = geometry.channels;
  spec.pixels = geometry.pixels;
  spec.channels_last = lane_number == kData && geometry.channels_last && !parts_.format.stored_layout;
  if (normalize) spec.normalize = resolve_normalize(*normalize, spec.from, spec.channels);

  const std::size_t prepared_bytes = geometry.channels * geometry.pixels * size_of(to) *
                                     static_cast<std::size_t>(parts_.options.batch_size) *
                                     parts_.options.prefetch_batches;
  spec.past_caches = field.map.row_bytes() >= kStreamedRowBytes && prepared_bytes >= kStreamedBatchBytes;

  Lane lane;
  lane.field = &field;
  lane.kernel = make_row_kernel(spec);
  lane.row_bytes = geometry.channels * geometry.pixels * size_of(to);
  if (!field.is_resident()) served_[lane_number] = ServedRows(field.reader->num_chunks());
  if (!field.is_resident() && !field.map.rows_contiguous()) {
    const auto rows = std::min(static_cast<std::uint64_t>(parts_.options.batch_size), field.info().rows());
    lane.staging =
        std::make_unique<BufferPool>(field.map.row_bytes() * rows, parts_.options.prefetch_batches + 1);
  }
  return lane;
}

std::byte* BatchAssembler::delivered(BatchJob& job, std::size_t lane_number) const noexcept {
  return lane_number == kData ? job.batch.data.bytes.get() : job.batch.target.bytes.get();
}

ReadAhead::Parts BatchAssembler::read_ahead_parts(ChunkAgenda& agenda) const {
  std::array<const ChunkReader*, kFields> readers = {};
  for (std::size_t lane = 0; lane < kFields; ++lane) {
    const Field* const field = lanes_[lane].field;
    if (field != nullptr && !field->is_resident()) readers[lane] = field->reader.get();
  }
  return {agenda, parts_.cache, readers, parts_.counters, {}};
}

void BatchAssembler::plan(BatchJob& job) const {
  job.batch.indices = job.plan->batch(job.batch.number);
  const std::size_t count = job.batch.indices.size();
  BatchSlot slot = parts_.device.acquire_slot();
  job.batch.data = std::move(slot.data);
  job.batch.data.dtype = parts_.format.data_dtype;
  job.batch.data.shape = batch_shape(count, parts_.options.batched, parts_.dataset.data.geometry.shape);
  if (parts_.dataset.target) {
    job.batch.target = std::move(slot.target);
    job.batch.target.dtype = parts_.format.target_dtype;
    job.batch.target.shape =
        batch_shape(count, parts_.options.batched, parts_.dataset.target->geometry.shape);
  }
  for (std::size_t lane = 0; lane < kFields; ++lane) {
    if (lanes_[lane].field != nullptr) plan_lane(job, lane);
  }
  job.remaining.store(job.visits.size(), std::memory_order_relaxed);
}

void BatchAssembler::plan_lane(BatchJob& job, std::size_t lane_number) const {
  const Lane& lane = lanes_[lane_number];
  const SampleMap& map = lane.field->map;
  const auto& indices = job.batch.indices;
  if (lane.field->is_resident()) {
    std::byte* const out = delivered(job, lane_number);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto row = static_cast<std::size_t>(indices[i]);
      lane.kernel->run(lane.field->resident.data() + row * map.row_bytes(), out + i * lane.row_bytes);
    }
    return;
  }

  std::vector<RowAt>& rows = job.rows[lane_number];
  rows.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    rows.push_back({static_cast<std::uint64_t>(indices[i]), static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(rows, [](const RowAt& a, const RowAt& b) {
    return std::pair(a.row, a.position) < std::pair(b.row, b.position);
  });
  if (lane.staging) job.staging[lane_number] = lane.staging->acquire();
  if (lane_number == kData && parts_.options.row_reads) {
    plan_direct(job, lane_number);
    return;
  }
  for (const ChunkRows& group : rows_by_chunk(rows, map)) {
    for (std::uint32_t piece = 0; piece < map.pieces(); ++piece) {
      job.visits.push_back({.field = static_cast<std::uint32_t>(lane_number),
                            .piece = piece,
                            .chunk = group.chunk + piece,
                            .first_row = group.first_row,
                            .num_rows = group.num_rows});
    }
  }
}

void BatchAssembler::plan_direct(BatchJob& job, std::size_t lane_number) const {
  const std::size_t rows = job.rows[lane_number].size();
  const std::size_t step =
      std::max<std::size_t>(1, kDirectVisitBytes / lanes_[lane_number].field->map.row_bytes());
  if (cold_rows_.load(std::memory_order_relaxed) > 0) hint_rows(lanes_[lane_number], job.rows[lane_number]);
  for (std::size_t first = 0; first < rows; first += step) {
    job.visits.push_back({.field = static_cast<std::uint32_t>(lane_number),
                          .first_row = static_cast<std::uint32_t>(first),
                          .num_rows = static_cast<std::uint32_t>(std::min(step, rows - first)),
                          .direct = true});
  }
}

BatchAssembler::Outcome BatchAssembler::visit(const VisitRef& ref, ChunkAgenda& agenda,
                                              const ChunkCache::Resume& resume, Scratch& scratch) const {
  const Visit& visit = ref.visit();
  if (ref.job->failed.load(std::memory_order_acquire)) {
    if (!visit.direct && !agenda.claim(ref)) return {};
    return {.finished = {ref}};
  }
  if (visit.direct) {
    const SleepProbe probe;
    read_direct(*ref.job, visit, scratch);
    note_direct_read(probe.slept());
    return {.finished = {ref}};
  }
  if (agenda.begin(ref, resume) != ChunkAgenda::Turn::go) return {};
  const std::uint64_t chunk_bytes = lanes_[visit.field].field->reader->chunk_bytes();
  ChunkCache::Lookup found = parts_.cache.lookup({visit.field, visit.chunk}, chunk_bytes, resume);
  if (auto* load = std::get_if<ChunkCache::Load>(&found)) {
    try {
      // Held until the rows are out: a chunk that does not stay in the cache counts as being decoded.
      ScratchPool::Lease read_scratch = scratch_pool_->acquire();
      return load_chunk({visit.field, visit.chunk}, agenda, *load, *read_scratch);
    } catch (...) {
      // Before the load is given up: the next to try might succeed, and do this visit as well.
      agenda.claim(ref);
      throw;
    }
  }
  auto* const pin = std::get_if<ChunkCache::Pin>(&found);
  if (pin == nullptr || !agenda.claim(ref)) return {};
  serve(ref, *pin);
  return {.finished = {ref}};
}

// Many reads in flight are what fast storage needs; bytes in the page cache need no hints.
void BatchAssembler::hint_rows(const Lane& lane, std::span<const RowAt> rows) const {
  while (!rows.empty()) {
    const std::size_t run = neighbours(rows, lane.field->map);
    lane.field->reader->hint_rows(rows.front().row, run);
    rows = rows.subspan(run);
  }
}

void BatchAssembler::note_direct_read(bool slept) const noexcept {
  if (slept) {
    cold_rows_.store(kColdPatience, std::memory_order_relaxed);
  } else if (const int left = cold_rows_.load(std::memory_order_relaxed); left > 0) {
    cold_rows_.store(left - 1, std::memory_order_relaxed);
  }
}

BatchAssembler::Outcome BatchAssembler::load_ahead(std::uint64_t chunk, ChunkAgenda& agenda) const {
  const std::uint64_t pieces = lanes_[kData].field->map.pieces();
  Outcome outcome;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const ChunkKey key{kData, chunk * pieces + piece};
    // Planned meanwhile: its tasks load it, or a reader thread fetches it already.
    if (agenda.contains(key)) continue;
    ScratchPool::Lease read_scratch = scratch_pool_->acquire();
    Outcome loaded = load_uncached(key, agenda, *read_scratch);
    outcome.read |= loaded.read;
    outcome.slept |= loaded.slept;
    std::ranges::move(loaded.finished, std::back_inserter(outcome.finished));
  }
  return outcome;
}

BatchAssembler::Outcome BatchAssembler::load_stored(ChunkKey key, ChunkAgenda& agenda) const {
  ReadScratch not_needed;
  return load_uncached(key, agenda, not_needed);
}

BatchAssembler::Outcome BatchAssembler::load_uncached(ChunkKey key, ChunkAgenda& agenda,
                                                      ReadScratch& scratch) const {
  if (parts_.cache.contains(key)) return {};
  const std::uint64_t chunk_bytes = lanes_[key.field].field->reader->chunk_bytes();
  try {
    ChunkCache::Lookup found = parts_.cache.lookup(key, chunk_bytes, [] {});
    auto* const load = std::get_if<ChunkCache::Load>(&found);
    if (load == nullptr) return {};
    return load_chunk(key, agenda, *load, scratch);
  } catch (const std::exception&) {
    return {};
  }
}

BatchAssembler::Outcome BatchAssembler::load_chunk(ChunkKey key, ChunkAgenda& agenda, ChunkCache::Load& load,
                                                   ReadScratch& scratch) const {
  const ChunkReader& reader = *lanes_[key.field].field->reader;
  const std::span<std::byte> out = load.buffer();
  const std::size_t fetched_bytes = agenda.take_fetched(key, scratch.raw);
  const SleepProbe probe;
  const ReadCost cost =
      fetched_bytes == 0
          ? reader.read_chunk(key.chunk, out, scratch)
          : reader.decode_chunk(key.chunk, scratch.raw.span().first(fetched_bytes), out, scratch);
  Outcome outcome{.read = cost.bytes_read > 0 && !cost.fallback, .slept = probe.slept()};
  count_read(parts_.counters, cost);
  Counters::add(parts_.counters.bytes_decoded, reader.chunk_bytes());

  // The rows of every batch that waits for the chunk are copied now, while the processor's caches hold it.
  outcome.finished = agenda.claim_all(key);
  ChunkCache::Pin pin = std::move(load).publish();
  for (const VisitRef& waiting : outcome.finished) {
    if (!waiting.job->failed.load(std::memory_order_acquire)) serve(waiting, pin);
  }
  return outcome;
}

void BatchAssembler::serve(const VisitRef& ref, ChunkCache::Pin& pin) const {
  const Visit& visit = ref.visit();
  gather(*ref.job, visit, pin.bytes().data());
  const SampleMap& map = lanes_[visit.field].field->map;
  const std::uint64_t first_row = visit.chunk / map.pieces() * map.rows_per_chunk();
  const std::uint64_t rows =
      std::min(map.rows_per_chunk(), lanes_[visit.field].field->info().rows() - first_row);
  if (served_[visit.field].add(visit.chunk, ref.job->round, visit.num_rows, rows)) pin.retire();
}

void BatchAssembler::gather(BatchJob& job, const Visit& visit, const std::byte* chunk) const {
  const TimeInto gathering(parts_.counters.gather_ns);
  const Lane& lane = lanes_[visit.field];
  const SampleMap& map = lane.field->map;
  const std::span rows = std::span(job.rows[visit.field]).subspan(visit.first_row, visit.num_rows);
  if (lane.staging) {
    std::byte* const staged = job.staging[visit.field].get();
    for (const RowAt& at : rows) {
      map.copy_piece(chunk, at.row, visit.piece, staged + at.position * map.row_bytes());
    }
  } else {
    std::byte* const out = delivered(job, visit.field);
    for (const RowAt& at : rows) {
      lane.kernel->run(map.row_in_chunk(chunk, at.row), out + at.position * lane.row_bytes);
    }
  }
}

void BatchAssembler::read_direct(BatchJob& job, const Visit& visit, Scratch& scratch) const {
  const Lane& lane = lanes_[visit.field];
  const ChunkReader& reader = *lane.field->reader;
  std::byte* const out = delivered(job, visit.field);
  const std::span rows = std::span(job.rows[visit.field]).subspan(visit.first_row, visit.num_rows);
  const std::size_t stored_row_bytes = lane.field->map.row_bytes();
  for (std::size_t i = 0; i < rows.size();) {
    const std::size_t run = neighbours(rows.subspan(i), lane.field->map);
    const std::span places = rows.subspan(i, run);
    if (lane.kernel->is_copy()) {
      scratch.outs.clear();
      for (const RowAt& at : places)
        scratch.outs.emplace_back(out + at.position * lane.row_bytes, lane.row_bytes);
      count_read(parts_.counters, reader.read_rows(places.front().row, run, scratch.outs));
    } else {
      scratch.rows.resize_discard(run * stored_row_bytes);
      const std::span stored = scratch.rows.span().first(run * stored_row_bytes);
      count_read(parts_.counters, reader.read_rows(places.front().row, run, stored));
      for (std::size_t r = 0; r < run; ++r) {
        lane.kernel->run(stored.data() + r * stored_row_bytes, out + places[r].position * lane.row_bytes);
      }
    }
    i += run;
  }
  Counters::add(parts_.counters.rows_direct, rows.size());
}

void BatchAssembler::finish(BatchJob& job) const {
  for (std::size_t lane_number = 0; lane_number < kFields; ++lane_number) {
    const Lane& lane = lanes_[lane_number];
    if (!lane.staging) continue;
    const TimeInto gathering(parts_.counters.gather_ns);
    const std::byte* const staged = job.staging[lane_number].get();
    std::byte* const out = delivered(job, lane_number);
    for (std::size_t i = 0; i < job.batch.indices.size(); ++i) {
      lane.kernel->run(staged + i * lane.field->map.row_bytes(), out + i * lane.row_bytes);
    }
    job.staging[lane_number].reset();
  }
  parts_.device.stage(job.ticket, {job.shared_from_this(), &job.batch});
}

}  // namespace h5feed
