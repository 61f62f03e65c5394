// SPDX-License-Identifier: Apache-2.0
#include "h5feed/sample_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/interrupt.hpp"
#include "base/system_limits.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/batch_assembler.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_loader.hpp"
#include "flow/measure/counters.hpp"
#include "flow/resolve/resolve.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "flow/values/conversion.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {
namespace {

// Returns the loader options that describe random reads: single samples in any order, on every CPU.
DataLoaderOptions as_loader_options(const SampleReaderOptions& options, const SystemLimits& limits) {
  DataLoaderOptions as_loader;
  as_loader.shuffle = true;
  as_loader.num_workers = std::min<std::int64_t>(limits.cpus, kMaxWorkers);
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

Resolved resolve_reads(const SampleReaderOptions& options, const Dataset& dataset) {
  const SystemLimits limits = system_limits();
  return resolve(as_loader_options(options, limits), *DatasetAccess::state(dataset),
                 DatasetAccess::chosen(dataset).get(), limits);
}

}  // namespace

struct H5FEED_NO_EXPORT SampleReader::State {
  State(const Dataset& handle, const SampleReaderOptions& user)
      : dataset(handle),
        options(with_scale(user, *DatasetAccess::state(dataset))),
        resolved(resolve_reads(options, dataset)),
        assembler(*DatasetAccess::state(dataset), resolved, nullptr, counters),
        chunks({.dataset = *DatasetAccess::state(dataset),
                .options = resolved.options,
                .cache = resolved.group->cache(),
                .counters = counters,
                .spare = &resolved.group->spare()}) {}

  std::vector<std::int64_t> file_samples(std::span<const std::int64_t> samples) const {
    const SampleSubset* const chosen = DatasetAccess::chosen(dataset).get();
    std::vector<std::int64_t> numbers;
    numbers.reserve(samples.size());
    for (const std::int64_t sample : samples) {
      if (sample < 0 || sample >= dataset.size()) {
        const DatasetInfo& info = DatasetAccess::state(dataset)->data.info();
        throw OptionError(fmt::format("{}:{}: there is no sample {}; use 0 to {}", info.file,
                                      short_path(info.path), sample, dataset.size() - 1));
      }
      numbers.push_back(chosen == nullptr
                            ? sample
                            : static_cast<std::int64_t>(chosen->given(static_cast<std::uint64_t>(sample))));
    }
    return numbers;
  }

  // Does all visits of a job on the calling thread.
  void run(BatchJob& job) {
    assembler.plan(job, true);
    BatchAssembler::Scratch rows;
    for (const Visit& visit : job.visits) {
      check_interrupt();
      if (visit.direct) {
        assembler.read_direct(job, visit, rows);
      } else {
        const ChunkCache::Pin pin = chunks.pin({visit.field, visit.chunk});
        assembler.copy_rows(job, visit, pin.bytes().data());
      }
    }
    assembler.finish(job);
  }

  // Order matters: members use those declared before them, and are destroyed first.
  const Dataset dataset;
  const SampleReaderOptions options;
  const Resolved resolved;
  Counters counters;
  const BatchAssembler assembler;
  ChunkLoader chunks;
};

SampleReader::SampleReader(Dataset dataset, SampleReaderOptions options)
    : state_(std::make_unique<State>(std::move(dataset), std::move(options))) {}

SampleReader::~SampleReader() = default;

Batch SampleReader::read(std::span<const std::int64_t> samples) const {
  BatchJob job(state_->file_samples(samples), {state_->options.seed, state_->options.epoch});
  state_->run(job);
  Counters& counters = state_->counters;
  Counters::add(counters.batches, 1);
  Counters::add(counters.samples, samples.size());
  Counters::add(counters.bytes_delivered,
                samples.size() * DatasetAccess::state(state_->dataset)->sample_bytes());
  return std::move(job.batch);
}

const Dataset& SampleReader::dataset() const noexcept { return state_->dataset; }

const SampleReaderOptions& SampleReader::options() const noexcept { return state_->options; }

LoaderStats SampleReader::stats() const { return snapshot(state_->counters); }

}  // namespace h5feed
