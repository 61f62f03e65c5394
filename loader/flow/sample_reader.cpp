// SPDX-License-Identifier: Apache-2.0
#include "h5feed/sample_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <semaphore>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/system_limits.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/field_batch.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/scratch_pool.hpp"
#include "flow/measure/counters.hpp"
#include "flow/resolve/field_kernel.hpp"
#include "flow/resolve/loader_group.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "flow/resolve/resolve_order.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {
namespace {

// Returns the loader options that describe random reads: single samples in any order, on every CPU.
DataLoaderOptions as_loader_options(const SampleReaderOptions& options, const SystemLimits& limits) {
  DataLoaderOptions as_loader;
  as_loader.shuffle = true;
  as_loader.num_workers = limits.cpus;
  as_loader.cache_bytes = options.cache_bytes;
  as_loader.memory_budget_bytes = options.memory_budget_bytes;
  as_loader.io_depth = 0;
  as_loader.normalize = options.normalize;
  as_loader.target_dtype = options.target_dtype;
  as_loader.row_reads = options.row_reads;
  return as_loader;
}

// Returns `options` with `normalize` completed by the `unit_range` of the reader or the dataset.
SampleReaderOptions with_scale(SampleReaderOptions options, const DatasetState& dataset) {
  options.normalize = with_unit_range(std::move(options.normalize),
                                      options.unit_range || dataset.options.unit_range, dataset.data.info());
  return options;
}

// Maps each piece to the indices of the `rows` that are partly stored in it. All `rows` belong to one row of
// the chunk grid.
std::map<std::uint64_t, std::vector<std::size_t>> parts_by_piece(const SampleMap& map,
                                                                 std::span<const RowAt> rows) {
  std::map<std::uint64_t, std::vector<std::size_t>> parts;
  std::vector<std::uint64_t> pieces;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    pieces.clear();
    map.append_pieces(rows[i].row, pieces);
    for (const std::uint64_t piece : pieces) parts[piece].push_back(i);
  }
  return parts;
}

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  // A non-null pointer marks the tensor as defined, even if it has no bytes.
  auto buffer = std::make_shared<ByteBuffer>(std::max<std::size_t>(bytes, 1));
  return {buffer, buffer->data()};
}

}  // namespace

struct SampleReader::State {
  /// Delivery of one field: its storage, conversion kernel and delivered format.
  struct Lane {
    std::uint32_t number;
    const Field& field;
    DType dtype;
    std::size_t row_bytes;  ///< bytes of one delivered row
    bool direct;            ///< rows bypass the cache
    std::unique_ptr<const RowKernel> kernel;
  };

  State(Dataset handle, SampleReaderOptions user)
      : dataset(std::move(handle)),
        options(with_scale(std::move(user), *dataset.state())),
        group(LoaderGroup::of(*dataset.state())),
        resolved(join_group()),
        scratch(static_cast<std::size_t>(resolved.concurrent_decodes)) {
    const DatasetState& state = *dataset.state();
    lanes.push_back(make_lane(kData, state.data,
                              row_kernel_spec(state.data, format.data_dtype, options.normalize),
                              format.data_row_bytes));
    if (state.target) {
      check_range(*state.target, format.target_dtype, "target", "target_dtype");
      lanes.push_back(make_lane(kTarget, *state.target,
                                row_kernel_spec(*state.target, format.target_dtype, std::nullopt),
                                format.target_row_bytes));
    }
    for (std::uint32_t i = 0; i < state.fields.size(); ++i) {
      const NamedField& named = state.fields[i];
      ragged.push_back(named.ragged ? std::make_unique<const RaggedRows>(named) : nullptr);
      if (named.ragged) continue;
      check_range(*named.rows, named.dtype(), named.options.name, kFieldDType);
      lanes.push_back(
          make_lane(kFirstNamed + i, *named.rows, row_kernel_spec(named), format.fields[i].row_bytes));
    }
  }

  ResolvedOptions join_group() {
    const SystemLimits limits = system_limits();
    const DataLoaderOptions as_loader = as_loader_options(options, limits);
    const DatasetState& state = *dataset.state();
    ResolvedOptions order = resolve_order(as_loader, state, dataset.chosen().get());
    format = delivery_format(as_loader, state, resolve_conversion(as_loader, state),
                             static_cast<std::uint64_t>(order.max_batch_rows));
    membership = group->join([&](const MemoryUse& others) {
      const Resolution resolution = resolve_options(as_loader, state, order, format, limits, others);
      order = resolution.options;
      return resolution.memory;
    });
    return order;
  }

  Lane make_lane(std::uint32_t number, const Field& field, const RowKernelSpec& spec,
                 std::size_t row_bytes) const {
    return {number, field, spec.to, row_bytes, number == kData && resolved.row_reads, make_row_kernel(spec)};
  }

  std::vector<std::int64_t> file_samples(std::span<const std::int64_t> samples) const {
    const SampleSubset* const chosen = dataset.chosen().get();
    std::vector<std::int64_t> numbers;
    numbers.reserve(samples.size());
    for (const std::int64_t sample : samples) {
      if (sample < 0 || sample >= dataset.size()) {
        const DatasetInfo& info = dataset.state()->data.info();
        throw DatasetError(fmt::format("{}:{}: there is no sample {}; use 0 to {}", info.file,
                                       short_path(info.path), sample, dataset.size() - 1));
      }
      numbers.push_back(chosen == nullptr
                            ? sample
                            : static_cast<std::int64_t>(chosen->given(static_cast<std::uint64_t>(sample))));
    }
    return numbers;
  }

  // Reads the values of one lane for `batch.indices` into `batch`.
  void read_lane(const Lane& lane, Batch& batch) {
    const std::vector<std::int64_t>& samples = batch.indices;
    auto bytes = allocate(samples.size() * lane.row_bytes);
    std::byte* const out = bytes.get();
    if (lane.number < kFirstNamed) {
      HostTensor& tensor = lane.number == kData ? batch.data : batch.target;
      tensor.bytes = std::move(bytes);
      tensor.dtype = lane.dtype;
      tensor.shape = batch_shape(samples.size(), true, lane.field.geometry.shape);
    } else {
      const std::size_t number = lane.number - kFirstNamed;
      batch.fields[number] =
          make_field(dataset.state()->fields[number], samples.size(), true, std::move(bytes));
    }
    std::vector<RowAt> rows;
    rows.reserve(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      rows.push_back(
          {lane.field.row_of(static_cast<std::uint64_t>(samples[i])), static_cast<std::uint32_t>(i)});
    }
    std::ranges::sort(rows, {}, &RowAt::row);
    if (lane.field.is_resident()) {
      const std::size_t stored_bytes = lane.field.map.row_bytes();
      for (const RowAt& at : rows) {
        lane.kernel->run(lane.field.resident.data() + at.row * stored_bytes,
                         out + at.position * lane.row_bytes);
      }
    } else if (lane.direct) {
      read_rows(lane, rows, out);
    } else {
      for (std::span<const RowAt> rest = rows; !rest.empty();) {
        const std::uint64_t chunk = lane.field.map.chunk_of(rest.front().row, 0);
        std::size_t count = 1;
        while (count < rest.size() && lane.field.map.chunk_of(rest[count].row, 0) == chunk) ++count;
        gather(lane, chunk, rest.first(count), out);
        rest = rest.subspan(count);
      }
    }
  }

  void read_ragged(std::size_t number, Batch& batch) {
    const NamedField& field = dataset.state()->fields[number];
    batch.fields[number] = make_ragged_field(field, batch.indices, true);
    BatchField* const out = &batch.fields[number];
    for (std::size_t i = 0; i < batch.indices.size(); ++i)
      count_read(counters, ragged[number]->read(batch.indices[i], i, {&out, 1}));
  }

  void read_rows(const Lane& lane, std::span<const RowAt> rows, std::byte* out) {
    ByteBuffer stored(lane.field.map.row_bytes());
    for (const RowAt& at : rows) {
      std::byte* const to = out + at.position * lane.row_bytes;
      if (lane.kernel->is_copy()) {
        count_read(counters, lane.field.reader->read_rows(at.row, 1, std::span(to, lane.row_bytes)));
      } else {
        count_read(counters, lane.field.reader->read_rows(at.row, 1, stored.span()));
        lane.kernel->run(stored.data(), to);
      }
    }
    Counters::add(counters.rows_direct, rows.size());
  }

  // Gathers rows stored in `chunk`; if samples span several chunks, also in the chunks that follow it.
  void gather(const Lane& lane, std::uint64_t chunk, std::span<const RowAt> rows, std::byte* out) {
    const SampleMap& map = lane.field.map;
    ByteBuffer staging(map.rows_contiguous() ? 0 : rows.size() * map.row_bytes());
    for (const auto& [piece, in_piece] : parts_by_piece(map, rows)) {
      const ChunkCache::Pin pin = pin_chunk(lane, chunk + piece);
      const TimeInto gathering(counters.gather_ns);
      for (const std::size_t i : in_piece) {
        const std::byte* const from = map.row_in_chunk(pin.bytes().data(), rows[i].row);
        if (map.rows_contiguous()) {
          lane.kernel->run(from, out + rows[i].position * lane.row_bytes);
        } else {
          map.copy_piece(from, rows[i].row, piece, staging.data() + i * map.row_bytes());
        }
      }
    }
    for (std::size_t i = 0; i < rows.size() && !map.rows_contiguous(); ++i) {
      std::byte* const sample = staging.data() + i * map.row_bytes();
      map.fill_edges(rows[i].row, sample);
      lane.kernel->run(sample, out + rows[i].position * lane.row_bytes);
    }
  }

  ChunkCache::Pin pin_chunk(const Lane& lane, std::uint64_t chunk) {
    const ChunkReader& reader = *lane.field.reader;
    while (true) {
      // Shared with the loading thread, which may still be in release() after this thread has continued.
      const auto loaded = std::make_shared<std::binary_semaphore>(0);
      ChunkCache::Lookup found =
          group->cache().lookup({lane.number, chunk}, reader.chunk_bytes(), [loaded] { loaded->release(); });
      if (auto* const pin = std::get_if<ChunkCache::Pin>(&found)) {
        Counters::add(counters.cache_hits, 1);
        return std::move(*pin);
      }
      if (auto* const load = std::get_if<ChunkCache::Load>(&found)) {
        ScratchPool::Lease lease = scratch.acquire();
        Counters::add(counters.cache_misses, 1);
        count_read(counters, reader.read_chunk(chunk, load->buffer(), *lease));
        Counters::add(counters.bytes_decoded, reader.chunk_bytes());
        if (lane.number == kData) Counters::add(counters.chunk_loads, 1);
        return std::move(*load).publish();
      }
      loaded->acquire();
    }
  }

  // Order matters: members use those declared before them, and are destroyed first.
  const Dataset dataset;
  const SampleReaderOptions options;
  const std::shared_ptr<LoaderGroup> group;
  DeliveryFormat format;
  std::unique_ptr<LoaderGroup::Membership> membership;
  const ResolvedOptions resolved;
  ScratchPool scratch;
  std::vector<Lane> lanes;
  std::vector<std::unique_ptr<const RaggedRows>> ragged;  // one per named field; null if a lane delivers it
  Counters counters;
};

SampleReader::SampleReader(Dataset dataset, SampleReaderOptions options)
    : state_(std::make_unique<State>(std::move(dataset), std::move(options))) {}

SampleReader::~SampleReader() = default;

Batch SampleReader::read(std::span<const std::int64_t> samples) const {
  Batch batch;
  batch.indices = state_->file_samples(samples);
  batch.fields.resize(state_->ragged.size());
  for (const State::Lane& lane : state_->lanes) state_->read_lane(lane, batch);
  for (std::size_t number = 0; number < state_->ragged.size(); ++number) {
    if (state_->ragged[number]) state_->read_ragged(number, batch);
  }
  Counters& counters = state_->counters;
  Counters::add(counters.batches, 1);
  Counters::add(counters.samples, samples.size());
  for (const State::Lane& lane : state_->lanes) {
    Counters::add(counters.bytes_delivered, samples.size() * lane.field.map.row_bytes());
  }
  return batch;
}

const Dataset& SampleReader::dataset() const noexcept { return state_->dataset; }

const SampleReaderOptions& SampleReader::options() const noexcept { return state_->options; }

LoaderStats SampleReader::stats() const { return snapshot(state_->counters); }

}  // namespace h5feed
