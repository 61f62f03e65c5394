#include "h5feed/sample_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <semaphore>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/system_limits.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batch_job.hpp"
#include "flow/counters.hpp"
#include "flow/field_kernel.hpp"
#include "flow/loader_group.hpp"
#include "flow/resolve_options.hpp"
#include "flow/resolve_order.hpp"
#include "flow/scratch_pool.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {
namespace {

// What random reads are to the rules that loaders follow: single samples in any order, on every CPU.
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

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  // Defined, also without a single byte.
  auto buffer = std::make_shared<ByteBuffer>(std::max<std::size_t>(bytes, 1));
  return {buffer, buffer->data()};
}

}  // namespace

struct SampleReader::State {
  /// One field's way from chunk to batch.
  struct Lane {
    std::uint32_t number;
    const Field& field;
    DType dtype;
    std::size_t row_bytes;  ///< delivered
    bool direct;            ///< rows bypass the cache
    std::unique_ptr<const RowKernel> kernel;
  };

  State(Dataset handle, SampleReaderOptions user)
      : dataset(std::move(handle)),
        options(std::move(user)),
        group(LoaderGroup::of(*dataset.state())),
        resolved(join_group()),
        scratch(resolved.concurrent_decodes) {
    const DatasetState& state = *dataset.state();
    lanes.push_back(
        make_lane(kData, state.data, format.data_dtype, format.data_row_bytes, options.normalize));
    if (!state.target) return;
    check_target_range(*state.target, format.target_dtype);
    lanes.push_back(
        make_lane(kTarget, *state.target, format.target_dtype, format.target_row_bytes, std::nullopt));
  }

  ResolvedOptions join_group() {
    const SystemLimits limits = system_limits();
    const DataLoaderOptions as_loader = as_loader_options(options, limits);
    const DatasetState& state = *dataset.state();
    format = delivery_format(as_loader, state);
    ResolvedOptions order = resolve_order(as_loader, state, dataset.chosen().get());
    seat = group->join([&](const MemoryUse& others) {
      const Resolution resolution = resolve_options(as_loader, state, order, format, limits, others);
      order = resolution.options;
      return resolution.memory;
    });
    return order;
  }

  Lane make_lane(std::uint32_t number, const Field& field, DType dtype, std::size_t row_bytes,
                 const std::optional<Normalize>& normalize) const {
    return {number,
            field,
            dtype,
            row_bytes,
            number == kData && resolved.row_reads,
            make_row_kernel(row_kernel_spec(field, dtype, normalize))};
  }

  std::vector<std::int64_t> file_samples(std::span<const std::int64_t> samples) const {
    const SampleSubset* const chosen = dataset.chosen().get();
    std::vector<std::int64_t> numbers;
    numbers.reserve(samples.size());
    for (const std::int64_t sample : samples) {
      if (sample < 0 || sample >= dataset.size()) {
        const DatasetInfo& info = dataset.state()->data.info();
        throw DatasetError(fmt::format("{}:{}: there is no sample {}; use 0 to {}", info.file, info.path,
                                       sample, dataset.size() - 1));
      }
      numbers.push_back(chosen == nullptr
                            ? sample
                            : static_cast<std::int64_t>(chosen->given(static_cast<std::uint64_t>(sample))));
    }
    return numbers;
  }

  HostTensor read_lane(const Lane& lane, const std::vector<std::int64_t>& samples) {
    HostTensor tensor{allocate(samples.size() * lane.row_bytes), lane.dtype, {}};
    tensor.shape.push_back(static_cast<std::int64_t>(samples.size()));
    const auto& sample_shape = lane.field.geometry.shape;
    tensor.shape.insert(tensor.shape.end(), sample_shape.begin(), sample_shape.end());
    std::vector<RowAt> rows;
    rows.reserve(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      rows.push_back({static_cast<std::uint64_t>(samples[i]), static_cast<std::uint32_t>(i)});
    }
    std::ranges::sort(rows, {}, &RowAt::row);
    std::byte* const out = tensor.bytes.get();
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
    return tensor;
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

  // Rows that lie in one chunk; where samples span several, in those that follow it as well.
  void gather(const Lane& lane, std::uint64_t chunk, std::span<const RowAt> rows, std::byte* out) {
    const SampleMap& map = lane.field.map;
    ByteBuffer staging(map.rows_contiguous() ? 0 : rows.size() * map.row_bytes());
    for (std::uint64_t piece = 0; piece < map.pieces(); ++piece) {
      const ChunkCache::Pin pin = pin_chunk(lane, chunk + piece);
      const TimeInto gathering(counters.gather_ns);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::byte* const from = map.row_in_chunk(pin.bytes().data(), rows[i].row);
        if (map.rows_contiguous()) {
          lane.kernel->run(from, out + rows[i].position * lane.row_bytes);
        } else {
          map.copy_piece(from, piece, staging.data() + i * map.row_bytes());
        }
      }
    }
    for (std::size_t i = 0; i < rows.size() && !map.rows_contiguous(); ++i) {
      lane.kernel->run(staging.data() + i * map.row_bytes(), out + rows[i].position * lane.row_bytes);
    }
  }

  ChunkCache::Pin pin_chunk(const Lane& lane, std::uint64_t chunk) {
    const ChunkReader& reader = *lane.field.reader;
    while (true) {
      // Shared with the thread that loads, which may still be in release() when this one has gone on.
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

  // Order matters: what comes later uses what comes before and is destroyed first.
  const Dataset dataset;
  const SampleReaderOptions options;
  const std::shared_ptr<LoaderGroup> group;
  DeliveryFormat format;
  std::unique_ptr<LoaderGroup::Seat> seat;
  const ResolvedOptions resolved;
  ScratchPool scratch;
  std::vector<Lane> lanes;
  Counters counters;
};

SampleReader::SampleReader(Dataset dataset, SampleReaderOptions options)
    : state_(std::make_unique<State>(std::move(dataset), std::move(options))) {}

SampleReader::~SampleReader() = default;

Batch SampleReader::read(std::span<const std::int64_t> samples) const {
  Batch batch;
  batch.indices = state_->file_samples(samples);
  for (const State::Lane& lane : state_->lanes) {
    (lane.number == kData ? batch.data : batch.target) = state_->read_lane(lane, batch.indices);
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
