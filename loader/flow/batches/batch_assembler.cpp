// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/batch_assembler.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "flow/chunks/visit_plan.hpp"
#include "flow/measure/trace_span.hpp"
#include "flow/values/field_kernel.hpp"

namespace h5feed {
namespace {

// Rows of prepared batches that together exceed the caches near a core are copied with non-temporal stores:
// cached, they would evict the chunks being decoded, and be evicted themselves before the batch is consumed.
constexpr std::size_t kStreamedRowBytes = 4096;
constexpr std::size_t kStreamedBatchBytes = std::size_t{16} << 20;

}  // namespace

BatchAssembler::BatchAssembler(const DatasetState& dataset, const Resolved& resolved, Device* device,
                               Counters& counters, const SampleChoice* choice)
    : dataset_(dataset),
      resolved_(resolved),
      device_(device),
      counters_(counters),
      choice_(choice),
      prefetched_(resolved.options.prefetch_batches),
      outputs_(dataset, resolved, device),
      lanes_(dataset.num_fields()) {
  const DeliveryFormat& format = resolved.format;
  lanes_[kData] = make_lane(kData, resolved.placement.on_host().kernel(), format.data_row_bytes);
  if (resolved.options.row_reads) {
    const Lane& data = lanes_[kData];
    const bool as_they_are = data.kernel->is_copy() && format.outputs == 1 && !resolved.transform;
    const bool planned_ahead = device != nullptr;
    const std::uint64_t stored_row_bytes =
        dataset.sparse ? dataset.sparse->mean_row_bytes() : data.field->map.row_bytes();
    direct_.emplace(DirectRows::Parts{*data.field, as_they_are, planned_ahead, data.row_bytes,
                                      stored_row_bytes, counters});
  }
  if (dataset.target) {
    check_range(*dataset.target, format.target_dtype, "target", "target_dtype");
    lanes_[kTarget] = make_lane(kTarget, row_kernel_spec(*dataset.target, format.target_dtype, {}),
                                format.target_row_bytes);
  }
  for (std::size_t i = 0; i < dataset.fields.size(); ++i) {
    const NamedField& named = dataset.fields[i];
    if (named.ragged) {
      lanes_[kFirstNamed + i].ragged = std::make_unique<const RaggedRows>(named);
      continue;
    }
    check_range(*named.rows, named.dtype(), named.options.name, kFieldDType);
    lanes_[kFirstNamed + i] = make_lane(kFirstNamed + i, row_kernel_spec(named), format.fields[i].row_bytes);
  }
}

BatchAssembler::Lane BatchAssembler::make_lane(std::size_t lane_number, RowKernelSpec spec,
                                               std::size_t row_bytes) const {
  const Field& field = *dataset_.field(lane_number);
  const auto batch_rows = static_cast<std::size_t>(resolved_.options.max_batch_rows);
  Lane lane;
  lane.field = &field;
  lane.kernel = make_row_kernel(spec);
  lane.batch_bytes = row_bytes * batch_rows * resolved_.format.outputs;
  // Without a device the consumer waits for the batch, and takes it from the caches.
  if (device_ != nullptr && field.map.row_bytes() >= kStreamedRowBytes && lane.kernel->is_copy()) {
    spec.past_caches = true;
    lane.past_caches = make_row_kernel(spec);
  }
  lane.rows_per_sample = field.belonging.per_sample();
  lane.row_bytes = row_bytes / lane.rows_per_sample;
  if (field.belonging.timed()) {
    lane.zeros = ByteBuffer(field.map.row_bytes());
    std::memset(lane.zeros.data(), 0, lane.zeros.size());
  }
  if (!field.is_resident() && !field.map.rows_contiguous()) {
    lane.staging = std::make_unique<BufferPool>(field.sample_bytes() * batch_rows,
                                                resolved_.options.prefetch_batches + 1);
  }
  return lane;
}

bool BatchAssembler::copies_past_caches(std::size_t field) const noexcept {
  const Lane& lane = lanes_[field];
  return lane.past_caches != nullptr &&
         lane.batch_bytes * prefetched_.load(std::memory_order_relaxed) >= kStreamedBatchBytes;
}

bool BatchAssembler::plan(BatchJob& job, bool wait) const {
  if (job.plan && job.batch.indices.empty()) {
    job.batch.indices = job.plan->batch(job.number);
    if (choice_ != nullptr) choice_->apply(job);
  }
  if (resolved_.options.provenance && job.batch.origins.empty()) {
    job.batch.origins.reserve(job.batch.indices.size());
    for (const std::int64_t sample : job.batch.indices)
      job.batch.origins.push_back(origin_of(dataset_, sample, job.key()));
  }
  if (dataset_.mixture && job.batch.sets.empty()) {
    job.batch.sets.reserve(job.batch.indices.size());
    for (const std::int64_t sample : job.batch.indices) job.batch.sets.push_back(set_of(dataset_, sample));
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

// Converts a stored row into its place in the batch and in its echoes.
void BatchAssembler::place(BatchJob& job, std::size_t lane_number, const std::byte* row,
                           std::uint32_t position) const {
  const Lane& lane = lanes_[lane_number];
  const auto sample = static_cast<std::uint32_t>(position / lane.rows_per_sample);
  const std::size_t offset =
      (job.place_of(lane_number, sample) * lane.rows_per_sample + position % lane.rows_per_sample) *
      lane.row_bytes;
  std::int64_t repeat = job.first_repeat;
  const RowKernel& kernel = copies_past_caches(lane_number) ? *lane.past_caches : *lane.kernel;
  const auto run = [&](const Batch& batch) {
    const std::byte* from = row;
    if (lane_number == kData && resolved_.transform) {
      const TransformTime transforming;
      from = resolved_.transform.run(
          row, {.seed = job.seed, .epoch = batch.epoch, .sample = batch.indices[sample], .repeat = repeat});
    }
    kernel.run(from, BatchOutputs::bytes_of(batch, lane_number) + offset,
               batch.transforms.empty() ? SampleTransform{} : batch.transforms[sample]);
    ++repeat;
  };
  run(job.batch);
  for (const Batch& echo : job.echoes) run(echo);
}

// Fills in a row of zeros, which no chunk holds.
void BatchAssembler::place_missing(BatchJob& job, std::size_t lane_number, std::uint32_t position) const {
  const Lane& lane = lanes_[lane_number];
  if (lane.staging) {
    std::memcpy(job.staging[lane_number].get() + position * lane.zeros.size(), lane.zeros.data(),
                lane.zeros.size());
  } else {
    place(job, lane_number, lane.zeros.data(), position);
  }
}

void BatchAssembler::plan_resident(BatchJob& job, std::size_t lane_number) const {
  const TimeGather gathering(counters_);
  const Field& field = *lanes_[lane_number].field;
  const auto& indices = job.batch.indices;
  std::vector<std::uint64_t> rows;
  std::uint32_t position = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    rows.clear();
    field.belonging.append(static_cast<std::uint64_t>(indices[i]), job.key(), rows);
    for (const std::uint64_t row : rows) {
      const std::uint32_t at = position++;
      if (job.on_device(lane_number, i)) continue;
      if (row == SampleRows::kMissing) {
        place_missing(job, lane_number, at);
      } else {
        place(job, lane_number, field.resident.data() + row * field.map.row_bytes(), at);
      }
    }
  }
}

void BatchAssembler::plan_lane(BatchJob& job, std::size_t lane_number) const {
  const Lane& lane = lanes_[lane_number];
  const SampleMap& map = lane.field->map;
  const auto& indices = job.batch.indices;
  if (lane.field->is_resident()) {
    plan_resident(job, lane_number);
    return;
  }

  std::vector<RowAt>& rows = job.rows[lane_number];
  std::vector<std::uint32_t> missing;
  std::vector<std::uint64_t> of_sample;
  rows.reserve(indices.size() * lane.rows_per_sample);
  std::uint32_t position = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    of_sample.clear();
    lane.field->belonging.append(static_cast<std::uint64_t>(indices[i]), job.key(), of_sample);
    for (const std::uint64_t row : of_sample) {
      const std::uint32_t at = position++;
      if (job.on_device(lane_number, i)) continue;
      if (row == SampleRows::kMissing) {
        missing.push_back(at);
      } else {
        rows.push_back({row, at});
      }
    }
  }
  if (rows.empty() && missing.empty()) return;
  std::ranges::sort(rows, [](const RowAt& a, const RowAt& b) {
    return std::pair(a.row, a.position) < std::pair(b.row, b.position);
  });
  if (lane.staging) {
    const bool pooled = indices.size() <= static_cast<std::size_t>(resolved_.options.max_batch_rows);
    job.staging[lane_number] =
        pooled ? lane.staging->acquire() : make_bytes(indices.size() * lane.field->sample_bytes());
  }
  for (const std::uint32_t at : missing) place_missing(job, lane_number, at);
  if (lane_number == kData && resolved_.options.row_reads) {
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
  const CountedRetries retries(counters_);
  const std::size_t number = visit.field - kFirstNamed;
  std::vector<BatchField*> outs = {&job.batch.fields[number]};
  for (Batch& echo : job.echoes) outs.push_back(&echo.fields[number]);
  for (std::size_t i = visit.first_row; i < visit.first_row + visit.num_rows; ++i)
    count_read(counters_, lanes_[visit.field].ragged->read(job.batch.indices[i], job.key(), i, outs));
}

// `row_in_chunk(number within the visit, row)` returns the start of the chunk's part of the sample.
template <typename RowInChunk>
void BatchAssembler::gather(BatchJob& job, const Visit& visit, const RowInChunk& row_in_chunk) const {
  const TimeGather gathering(counters_);
  const Lane& lane = lanes_[visit.field];
  const SampleMap& map = lane.field->map;
  const std::span rows = std::span(job.rows[visit.field]).subspan(visit.first_row, visit.num_rows);
  std::byte* const staged = lane.staging ? job.staging[visit.field].get() : nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::byte* const from = row_in_chunk(i, rows[i].row);
    if (lane.staging) {
      map.copy_piece(from, rows[i].row, job.key(), visit.piece, staged + rows[i].position * map.row_bytes());
    } else {
      place(job, visit.field, from, rows[i].position);
    }
  }
}

void BatchAssembler::place_sparse(BatchJob& job, const SparseReader::Row& row, std::uint32_t position,
                                  ByteBuffer& sample) const {
  if (const SparseBatch* const csr = outputs_.sparse()) {
    csr->copy(row, position, job.batch.sparse);
    for (const Batch& echo : job.echoes) csr->copy(row, position, echo.sparse);
    return;
  }
  sample.resize_discard(lanes_[kData].field->map.row_bytes());
  dataset_.sparse->expand(row, sample.data());
  place(job, kData, sample.data(), position);
}

void BatchAssembler::gather_sparse(BatchJob& job, const Visit& visit, const std::byte* chunk) const {
  const TimeGather gathering(counters_);
  ByteBuffer sample;
  for (const RowAt& at : std::span(job.rows[kData]).subspan(visit.first_row, visit.num_rows))
    place_sparse(job, dataset_.sparse->reader->row_of(chunk, at.row), at.position, sample);
}

void BatchAssembler::read_direct(BatchJob& job, const Visit& visit, Scratch& scratch) const {
  if (lanes_[visit.field].ragged) {
    read_ragged(job, visit);
    return;
  }
  const auto place_row = [&](const std::byte* row, std::uint32_t position) {
    place(job, visit.field, row, position);
  };
  if (dataset_.sparse) {
    ByteBuffer sample;
    const auto place_values = [&](const SparseReader::Row& row, std::uint32_t position) {
      place_sparse(job, row, position, sample);
    };
    direct_->read_sparse(job, visit, *dataset_.sparse->reader, place_values, scratch);
    return;
  }
  direct_->read(job, visit, BatchOutputs::bytes_of(job.batch, visit.field), place_row, scratch);
}

void BatchAssembler::find_unreadable(const BatchJob& job, const Visit& visit,
                                     const std::function<bool()>& unwanted,
                                     const UnreadableRow& unreadable) const {
  const CountedRetries retries(counters_);
  const Lane& lane = lanes_[visit.field];
  ByteBuffer values;
  ReadScratch scratch;
  for (std::size_t i = visit.first_row; i < visit.first_row + visit.num_rows && !unwanted(); ++i) {
    std::uint64_t row = 0;
    try {
      if (lane.ragged) {
        row = lane.ragged->row_of(job.batch.indices[i], job.key());
        count_read(counters_, lane.ragged->read_stored(row, values));
      } else {
        row = job.rows[visit.field][i].row;
        if (dataset_.sparse) {
          ReadCost cost;
          dataset_.sparse->reader->read_row(row, values, scratch, cost);
          count_read(counters_, cost);
          continue;
        }
        values.resize_discard(lane.field->map.row_bytes());
        count_read(counters_, lane.field->reader->read_rows(row, 1, values.span()));
      }
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      if (!BadData::is_of_data(error)) throw;
      unreadable(row, error);
    }
  }
}

void BatchAssembler::copy_rows(BatchJob& job, const Visit& visit, const std::byte* chunk) const {
  if (visit.field == kData && dataset_.sparse) {
    gather_sparse(job, visit, chunk);
    return;
  }
  const SampleMap& map = lanes_[visit.field].field->map;
  gather(job, visit, [&](std::size_t, std::uint64_t row) { return map.row_in_chunk(chunk, row); });
}

void BatchAssembler::copy_rows(BatchJob& job, const Visit& visit, const RowCache::Lease& rows) const {
  gather(job, visit, [&](std::size_t number, std::uint64_t) { return rows.row(number); });
}

void BatchAssembler::finish(BatchJob& job) const {
  for (std::size_t lane_number = 0; lane_number < lanes_.size(); ++lane_number) {
    const Lane& lane = lanes_[lane_number];
    if (!lane.staging) continue;
    const TimeGather gathering(counters_);
    const SampleMap& map = lane.field->map;
    std::byte* const staged = job.staging[lane_number].get();
    ByteBuffer turned;
    if (map.turns()) turned.resize_discard(map.row_bytes());
    for (std::size_t at = 0; at < job.batch.indices.size() * lane.rows_per_sample; ++at) {
      const std::size_t i = at / lane.rows_per_sample;
      if (job.on_device(lane_number, i)) continue;
      std::byte* const sample = staged + at * map.row_bytes();
      bool turns = false;
      if (map.tiled()) {
        const auto tile = static_cast<std::uint64_t>(job.batch.indices[i]);
        map.fill_edges(tile, job.key(), sample);
        turns = map.turn(tile, job.key(), sample, turned.data());
      }
      place(job, lane_number, turns ? turned.data() : sample, static_cast<std::uint32_t>(at));
    }
    job.staging[lane_number].reset();
  }
}

void BatchAssembler::hand_to_device(BatchJob& job, TraceSink* trace) const noexcept {
  if (!resolved_.placement.gpu) return;  // the batch stays in host memory
  const TraceSpan span(trace, Stage::transfer, job.ticket);
  const TimeInto transferring(counters_.transfer_ns);
  device_->stage(job.ticket, {job.shared_from_this(), &job.batch});
}

}  // namespace h5feed
