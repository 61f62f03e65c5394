// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/batch_assembler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "base/sleep_probe.hpp"
#include "flow/chunks/visit_plan.hpp"
#include "flow/measure/trace_span.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/field_kernel.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Rows of prepared batches that together exceed the caches near a core are copied with non-temporal stores:
// cached, they would evict the chunks being decoded, and be evicted themselves before the batch is consumed.
constexpr std::size_t kStreamedRowBytes = 4096;
constexpr std::size_t kStreamedBatchBytes = std::size_t{16} << 20;

}  // namespace

BatchAssembler::BatchAssembler(const Parts& parts)
    : parts_(parts),
      outputs_({parts.dataset, parts.options, parts.format, parts.placement, parts.device}),
      lanes_(parts.dataset.num_fields()),
      served_(parts.dataset.num_fields()),
      scratch_pool_(
          std::make_unique<ScratchPool>(static_cast<std::size_t>(parts.options.concurrent_decodes))) {
  lanes_[kData] = make_lane(kData, parts.placement.on_host().kernel(), parts.format.data_row_bytes);
  if (parts.options.row_reads) {
    const Lane& data = lanes_[kData];
    const bool as_they_are = data.kernel->is_copy() && parts.format.outputs == 1;
    direct_.emplace(DirectRows::Parts{*data.field, as_they_are, data.row_bytes, parts.counters});
  }
  if (parts.dataset.target) {
    check_range(*parts.dataset.target, parts.format.target_dtype, "target", "target_dtype");
    lanes_[kTarget] =
        make_lane(kTarget, row_kernel_spec(*parts.dataset.target, parts.format.target_dtype, {}),
                  parts.format.target_row_bytes);
  }
  for (std::size_t i = 0; i < parts.dataset.fields.size(); ++i) {
    const NamedField& named = parts.dataset.fields[i];
    if (named.ragged) {
      lanes_[kFirstNamed + i].ragged = std::make_unique<const RaggedRows>(named);
      continue;
    }
    check_range(*named.rows, named.dtype(), named.options.name, kFieldDType);
    lanes_[kFirstNamed + i] =
        make_lane(kFirstNamed + i, row_kernel_spec(named), parts.format.fields[i].row_bytes);
  }
}

BatchAssembler::Lane BatchAssembler::make_lane(std::size_t lane_number, RowKernelSpec spec,
                                               std::size_t row_bytes) {
  const Field& field = *parts_.dataset.field(lane_number);
  const auto batch_rows = static_cast<std::size_t>(parts_.options.max_batch_rows);
  const std::size_t prepared_bytes =
      row_bytes * batch_rows * parts_.options.prefetch_batches * parts_.format.outputs;
  spec.past_caches = field.map.row_bytes() >= kStreamedRowBytes && prepared_bytes >= kStreamedBatchBytes;

  Lane lane;
  lane.field = &field;
  lane.kernel = make_row_kernel(spec);
  lane.row_bytes = row_bytes;
  if (!field.is_resident()) served_[lane_number] = ServedRows(field.reader->num_chunks());
  if (!field.is_resident() && !field.map.rows_contiguous()) {
    lane.staging =
        std::make_unique<BufferPool>(field.map.row_bytes() * batch_rows, parts_.options.prefetch_batches + 1);
  }
  const CacheLayout layout = cache_layout(parts_.dataset, parts_.options);
  const bool bypassed = field.is_resident() || (lane_number == kData && parts_.options.row_reads);
  if (!bypassed && layout.samples > 0) {
    lane.keeper = std::make_unique<RowKeeper>(field, parts_.future, layout.samples);
  }
  return lane;
}

ReadAhead::Parts BatchAssembler::read_ahead_parts(ChunkAgenda& agenda) const {
  std::vector<const ChunkReader*> readers(lanes_.size());
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Field* const field = lanes_[lane].field;
    if (field != nullptr && !field->is_resident()) readers[lane] = field->reader.get();
  }
  const auto in_memory = [this, &agenda](ChunkKey key) { return this->in_memory(key, agenda); };
  return {agenda, in_memory, readers, parts_.counters, {}};
}

bool BatchAssembler::in_memory(ChunkKey key, const ChunkAgenda& agenda) const {
  if (parts_.cache.contains(key)) return true;
  const RowKeeper* const keeper = lanes_[key.field].keeper.get();
  return keeper != nullptr && std::ranges::all_of(agenda.unclaimed(key), [&](const VisitRef& ref) {
           return keeper->holds(*ref.job, ref.visit());
         });
}

void BatchAssembler::forget_before(std::uint64_t turn) const noexcept {
  for (const Lane& lane : lanes_) {
    if (lane.keeper) lane.keeper->forget_before(turn);
  }
}

std::uint64_t BatchAssembler::row_bytes_held() const {
  std::uint64_t bytes = 0;
  for (const Lane& lane : lanes_) {
    if (lane.keeper) bytes += lane.keeper->held_bytes();
  }
  return bytes;
}

bool BatchAssembler::plan(BatchJob& job, bool wait) const {
  if (job.batch.indices.empty()) job.batch.indices = job.plan->batch(job.number);
  if (parts_.options.provenance && job.batch.origins.empty()) {
    job.batch.origins.reserve(job.batch.indices.size());
    for (const std::int64_t sample : job.batch.indices)
      job.batch.origins.push_back(origin_of(parts_.dataset, sample));
  }
  if (!outputs_.prepare(job, wait)) return false;
  job.rows.resize(lanes_.size());
  job.staging.resize(lanes_.size());
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].field != nullptr) plan_lane(job, lane);
    if (lanes_[lane].ragged) plan_ragged(job, lane);
  }
  job.remaining.store(job.visits.size(), std::memory_order_relaxed);
  return true;
}

// Converts a stored sample into its place in the batch and in its echoes.
void BatchAssembler::place(BatchJob& job, std::size_t lane_number, const std::byte* row,
                           std::uint32_t position) const {
  const Lane& lane = lanes_[lane_number];
  const std::size_t offset = position * lane.row_bytes;
  const auto run = [&](const Batch& batch) {
    lane.kernel->run(row, BatchOutputs::bytes_of(batch, lane_number) + offset,
                     batch.transforms.empty() ? SampleTransform{} : batch.transforms[position]);
  };
  run(job.batch);
  for (const Batch& echo : job.echoes) run(echo);
}

void BatchAssembler::plan_lane(BatchJob& job, std::size_t lane_number) const {
  const Lane& lane = lanes_[lane_number];
  const SampleMap& map = lane.field->map;
  const auto& indices = job.batch.indices;
  if (lane.field->is_resident()) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::uint64_t row = lane.field->row_of(static_cast<std::uint64_t>(indices[i]));
      place(job, lane_number, lane.field->resident.data() + row * map.row_bytes(),
            static_cast<std::uint32_t>(i));
    }
    return;
  }

  std::vector<RowAt>& rows = job.rows[lane_number];
  rows.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    rows.push_back(
        {lane.field->row_of(static_cast<std::uint64_t>(indices[i])), static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(rows, [](const RowAt& a, const RowAt& b) {
    return std::pair(a.row, a.position) < std::pair(b.row, b.position);
  });
  if (lane.staging) job.staging[lane_number] = lane.staging->acquire();
  if (lane_number == kData && parts_.options.row_reads) {
    direct_->plan(job, lane_number);
    return;
  }
  if (map.tiled()) {
    plan_tiles(job, lane_number, map);
    return;
  }
  plan_chunks(job, lane_number, map);
}

// The rows of a ragged visit are positions in the batch.
void BatchAssembler::read_ragged(BatchJob& job, const Visit& visit) const {
  const std::size_t number = visit.field - kFirstNamed;
  std::vector<BatchField*> outs = {&job.batch.fields[number]};
  for (Batch& echo : job.echoes) outs.push_back(&echo.fields[number]);
  for (std::size_t i = visit.first_row; i < visit.first_row + visit.num_rows; ++i)
    count_read(parts_.counters, lanes_[visit.field].ragged->read(job.batch.indices[i], i, outs));
}

// `row_in_chunk(number within the visit, row)` returns the start of the chunk's part of the sample.
template <typename RowInChunk>
void BatchAssembler::gather(BatchJob& job, const Visit& visit, const RowInChunk& row_in_chunk) const {
  const TimeInto gathering(parts_.counters.gather_ns);
  const Lane& lane = lanes_[visit.field];
  const SampleMap& map = lane.field->map;
  const std::span rows = std::span(job.rows[visit.field]).subspan(visit.first_row, visit.num_rows);
  std::byte* const staged = lane.staging ? job.staging[visit.field].get() : nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::byte* const from = row_in_chunk(i, rows[i].row);
    if (lane.staging) {
      map.copy_piece(from, rows[i].row, visit.piece, staged + rows[i].position * map.row_bytes());
    } else {
      place(job, visit.field, from, rows[i].position);
    }
  }
}

BatchAssembler::Outcome BatchAssembler::visit(const VisitRef& ref, ChunkAgenda& agenda,
                                              const ChunkCache::Resume& resume, Scratch& scratch) const {
  const Visit& visit = ref.visit();
  if (ref.job->failed.load(std::memory_order_acquire)) {
    if (!visit.direct && !agenda.claim(ref)) return {};
    return {.finished = {ref}};
  }
  if (visit.direct && lanes_[visit.field].ragged) {
    read_ragged(*ref.job, visit);
    return {.finished = {ref}};
  }
  if (visit.direct) {
    const auto place_row = [&](const std::byte* row, std::uint32_t position) {
      place(*ref.job, visit.field, row, position);
    };
    direct_->read(*ref.job, visit, BatchOutputs::bytes_of(ref.job->batch, visit.field), place_row, scratch);
    return {.finished = {ref}};
  }
  if (lanes_[visit.field].keeper && serve_kept(ref, agenda)) return {.finished = {ref}};
  if (agenda.begin(ref, resume) != ChunkAgenda::Turn::go) return {};
  const std::uint64_t chunk_bytes = lanes_[visit.field].field->reader->chunk_bytes();
  ChunkCache::Lookup found = agenda.look_up(ref, parts_.cache, chunk_bytes, resume);
  if (auto* load = std::get_if<ChunkCache::Load>(&found)) {
    try {
      // Held until the rows are copied: a chunk that does not stay in the cache counts as being decoded.
      ScratchPool::Lease read_scratch = scratch_pool_->acquire();
      Outcome outcome = load_chunk({visit.field, visit.chunk}, agenda, *load, *read_scratch);
      if (!outcome.finished.empty()) Counters::add(parts_.counters.cache_hits, outcome.finished.size() - 1);
      return outcome;
    } catch (...) {
      // Claim before `load` is abandoned: the next thread to try might succeed and do this visit as well.
      agenda.claim(ref);
      throw;
    }
  }
  auto* const pin = std::get_if<ChunkCache::Pin>(&found);
  if (pin == nullptr) return {};
  const RowFuture::DueTimes due_times = parts_.future.due_times();
  if (!agenda.claim(ref)) return {};
  serve(ref, *pin);
  keep_rows({visit.field, visit.chunk}, *pin, std::span(&ref, 1), due_times);
  Counters::add(parts_.counters.cache_hits, 1);
  return {.finished = {ref}};
}

// Serves the visit from kept rows if all of them are held.
bool BatchAssembler::serve_kept(const VisitRef& ref, ChunkAgenda& agenda) const {
  const Visit& visit = ref.visit();
  RowKeeper& keeper = *lanes_[visit.field].keeper;
  std::optional<RowCache::Lease> rows = keeper.take(*ref.job, visit);
  if (!rows || !agenda.claim_without_chunk(ref)) return false;
  gather(*ref.job, visit, [&](std::size_t number, std::uint64_t) { return rows->row(number); });
  keeper.give_back(*ref.job, visit, *std::move(rows));
  Counters::add(parts_.counters.cache_hits, 1);
  return true;
}

// Keeps rows of a chunk after the visits in `served` have been claimed and served from it.
void BatchAssembler::keep_rows(ChunkKey key, ChunkCache::Pin& pin, std::span<const VisitRef> served,
                               const RowFuture::DueTimes& due_times) const {
  RowKeeper* const keeper = lanes_[key.field].keeper.get();
  if (keeper == nullptr) return;
  keeper->keep(key.chunk, pin.bytes().data(), served, due_times);
  pin.retire();
}

BatchAssembler::Outcome BatchAssembler::load_ahead(std::uint64_t chunk, ChunkAgenda& agenda,
                                                   const std::function<bool()>& still_ahead) const {
  const std::uint64_t pieces = lanes_[kData].field->map.pieces();
  Outcome outcome;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const ChunkKey key{kData, chunk * pieces + piece};
    if (lanes_[kData].field->map.samples_in(key.chunk) == 0) continue;
    // The chunk was planned in the meantime: its tasks load it, or a reader thread is fetching it.
    if (agenda.contains(key)) continue;
    if (const auto& keeper = lanes_[kData].keeper; keeper && keeper->holds_due_rows(key.chunk)) continue;
    ScratchPool::Lease read_scratch = scratch_pool_->acquire();
    // Batches that were planned meanwhile may have been served already, and the chunk be gone again.
    const auto wanted = [&] { return still_ahead() || agenda.contains(key); };
    Outcome loaded = load_uncached(key, agenda, *read_scratch, wanted);
    outcome.read |= loaded.read;
    outcome.slept |= loaded.slept;
    std::ranges::move(loaded.finished, std::back_inserter(outcome.finished));
  }
  return outcome;
}

BatchAssembler::Outcome BatchAssembler::load_stored(ChunkKey key, ChunkAgenda& agenda) const {
  ReadScratch not_needed;
  return load_uncached(key, agenda, not_needed, [&] { return agenda.contains(key); });
}

BatchAssembler::Outcome BatchAssembler::load_uncached(ChunkKey key, ChunkAgenda& agenda, ReadScratch& scratch,
                                                      const std::function<bool()>& wanted) const {
  if (parts_.cache.contains(key)) return {};
  const std::uint64_t chunk_bytes = lanes_[key.field].field->reader->chunk_bytes();
  try {
    ChunkCache::Lookup found = parts_.cache.lookup(key, chunk_bytes, [] {});
    auto* const load = std::get_if<ChunkCache::Load>(&found);
    // Asked while the load is this thread's: nobody else can load the chunk now.
    if (load == nullptr || !wanted()) return {};
    Outcome outcome = load_chunk(key, agenda, *load, scratch);
    Counters::add(parts_.counters.cache_hits, outcome.finished.size());
    return outcome;
  } catch (const std::exception&) {
    return {};
  }
}

BatchAssembler::Outcome BatchAssembler::load_chunk(ChunkKey key, ChunkAgenda& agenda, ChunkCache::Load& load,
                                                   ReadScratch& scratch) const {
  const ChunkReader& reader = *lanes_[key.field].field->reader;
  Counters::add(parts_.counters.cache_misses, 1);
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
  if (key.field == kData) Counters::add(parts_.counters.chunk_loads, 1);

  const RowFuture::DueTimes due_times = parts_.future.due_times();
  // Copy the rows of every batch that waits for the chunk now, while the CPU caches hold it.
  outcome.finished = agenda.claim_all(key);
  ChunkCache::Pin pin = std::move(load).publish();
  for (const VisitRef& waiting : outcome.finished) {
    if (!waiting.job->failed.load(std::memory_order_acquire)) serve(waiting, pin);
  }
  keep_rows(key, pin, outcome.finished, due_times);
  return outcome;
}

void BatchAssembler::serve(const VisitRef& ref, ChunkCache::Pin& pin) const {
  const Visit& visit = ref.visit();
  const SampleMap& map = lanes_[visit.field].field->map;
  const std::byte* const chunk = pin.bytes().data();
  gather(*ref.job, visit, [&](std::size_t, std::uint64_t row) { return map.row_in_chunk(chunk, row); });
  const std::uint64_t rows = map.samples_in(visit.chunk) * lanes_[visit.field].field->samples_per_row;
  if (served_[visit.field].add(visit.chunk, ref.job->round, visit.num_rows, rows)) pin.retire();
}

void BatchAssembler::finish(BatchJob& job) const {
  for (std::size_t lane_number = 0; lane_number < lanes_.size(); ++lane_number) {
    const Lane& lane = lanes_[lane_number];
    if (!lane.staging) continue;
    const TimeInto gathering(parts_.counters.gather_ns);
    std::byte* const staged = job.staging[lane_number].get();
    for (std::size_t i = 0; i < job.batch.indices.size(); ++i) {
      std::byte* const sample = staged + i * lane.field->map.row_bytes();
      lane.field->map.fill_edges(lane.field->row_of(static_cast<std::uint64_t>(job.batch.indices[i])),
                                 sample);
      place(job, lane_number, sample, static_cast<std::uint32_t>(i));
    }
    job.staging[lane_number].reset();
  }
}

void BatchAssembler::hand_to_device(BatchJob& job, TraceSink* trace) const noexcept {
  if (!parts_.placement.gpu) return;  // the batch stays in host memory
  const TraceSpan span(trace, Stage::transfer, job.ticket);
  const TimeInto transferring(parts_.counters.transfer_ns);
  parts_.device.stage(job.ticket, {job.shared_from_this(), &job.batch});
}

}  // namespace h5feed
