// SPDX-License-Identifier: Apache-2.0
#include "h5feed/data_loader.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "batch/given_output.hpp"
#include "flow/data_loader_state.hpp"
#include "flow/report.hpp"
#include "flow/resolve/advice.hpp"
#include "flow/resolve/resolve.hpp"
#include "flow/resolve/resolve_order.hpp"
#include "flow/storage_line.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

DataLoader::DataLoader(Dataset dataset, DataLoaderOptions options)
    : state_(std::make_unique<State>(std::move(dataset), options)) {}

DataLoader::~DataLoader() = default;

std::uint64_t DataLoader::size() const noexcept {
  return state_->batches_per_epoch * static_cast<std::uint64_t>(state_->resolved.options.echo_factor);
}

void DataLoader::set_epoch(std::uint64_t epoch) { state_->set_epoch(epoch); }

void DataLoader::warm_up() { state_->warm_up(); }

LoaderState DataLoader::state() const { return state_->state(); }

void DataLoader::restore(const LoaderState& state) { state_->restore(state); }

void DataLoader::start_epoch() { state_->start_epoch(); }

OptionalBatch<Batch> DataLoader::next() { return state_->next({}); }

bool DataLoader::wait_ready(std::chrono::milliseconds limit) { return state_->wait_ready(limit); }

OptionalBatch<Batch> DataLoader::next_into(const ProvideOutput& provide) {
  if (!provide) throw OptionError("next_into() needs a function that provides memory; got an empty one");
  return state_->next(provide);
}

OptionalBatch<Batch> DataLoader::next_into(const DeviceTensor& data, const DeviceTensor& target,
                                           GpuStream stream, const std::vector<DeviceField>& fields) {
  return state_->next([&](int, const DeviceTensors& batch) {
    check_room("data", data, batch.data);
    if (batch.target) check_room("target", target, *batch.target);
    refuse_other_fields(fields, batch.fields);
    DeviceOutput output{data.data, target.data, stream};
    for (const DeviceField& field : batch.fields) output.fields.push_back(find_room(fields, field).data);
    return output;
  });
}

const ResolvedOptions& DataLoader::options() const noexcept { return state_->resolved.options; }

PlanReport plan(const Dataset& dataset, const DataLoaderOptions& options) {
  const DatasetState& state = *DatasetAccess::state(dataset);
  const Resolved resolved =
      resolve(options, state, DatasetAccess::chosen(dataset).get(), system_limits(), MemoryClaim::foreseen);
  const PlanSpec spec = make_plan_spec(
      {options.sampler, options.batch_sampler, DatasetAccess::chosen(dataset)}, state, resolved.options);
  return predict_epoch(state, resolved.options, EpochPlan(spec, 0).num_batches());
}

PlanReport DataLoader::plan() const {
  return predict_epoch(*state_->dataset, state_->resolved.options, state_->batches_per_epoch);
}

LoaderStats DataLoader::stats() const {
  LoaderStats stats = state_->counted();
  const SelfTuning::Choice in_use = state_->in_use();
  stats.active_workers =
      static_cast<std::uint64_t>(state_->tuning ? state_->prefetcher.active() : in_use.workers);
  stats.prefetched_batches = in_use.batches;
  stats.reads_in_flight = static_cast<std::uint64_t>(in_use.reads);
  stats.gpu = state_->gpu_window.total();
  stats.cache_bytes = state_->cache.stats().held_bytes + state_->chunks.row_bytes_held();
  stats.outputs_held_bytes = state_->device->lent_bytes();
  stats.outputs_allocated = state_->device->allocations();
  stats.in_flight_bytes =
      state_->ring.size() * batch_bytes(state_->resolved.format, state_->resolved.options);
  const DeviceMemoryUse memory = state_->device->memory();
  stats.pinned_bytes = memory.pinned;
  stats.pageable_batches = memory.pageable_slots;
  stats.gpu_memory = memory.gpu;
  stats.gpu_cache_bytes = memory.cache_bytes;
  stats.gpu_cache_hits = memory.cache_hits;
  return stats;
}

std::string DataLoader::report() const {
  const LoaderStats now = stats();
  DataFacts facts = state_->data_facts();
  if (state_->dataset->remote) facts.storage = storage_line(*state_->dataset->remote, now);
  return format_report(now, state_->resolved.options, state_->limits, facts);
}

std::optional<Verdict> DataLoader::verdict() const {
  return state_->epoch_log.verdict(state_->counted(), state_->verdict_facts());
}

namespace {

std::string set_line(std::size_t number, const MixedSetPlan& set) {
  std::string line =
      fmt::format("set {}: {:.1f} % of the samples, {} of {} ({:.2f} passes) from {} {}", number,
                  set.share * 100, format_count(static_cast<std::uint64_t>(set.samples)),
                  format_count(static_cast<std::uint64_t>(set.size)), set.passes(), format_count(set.chunks),
                  set.chunks == 1 ? "chunk" : "chunks");
  if (set.decodes_per_chunk) line += fmt::format(", each decoded about {:.1f} times", *set.decodes_per_chunk);
  return line;
}

}  // namespace

std::string PlanReport::to_string() const {
  std::string text = fmt::format("an epoch: {} samples in {} batches from {} {}; mixing {:.2f}",
                                 format_count(static_cast<std::uint64_t>(samples)), format_count(batches),
                                 format_count(chunks), chunks == 1 ? "chunk" : "chunks", mixing);
  if (echo_factor > 1) {
    text += fmt::format(", {:.2f} with echo.factor {}: repeats bring no new samples", mixing_with_echo,
                        echo_factor);
  }
  if (chunks_per_group != 1)
    text += fmt::format("; chunk:K permutes groups of {:.1f} chunks on average", chunks_per_group);
  text += "\n";
  if (decodes_per_chunk) {
    text += fmt::format("decodes per chunk: about {:.1f} with cache_bytes {}", *decodes_per_chunk,
                        format_bytes(cache_bytes));
    if (clairvoyant_decodes_per_chunk)
      text += fmt::format(" (clairvoyant: {:.1f})", *clairvoyant_decodes_per_chunk);
    text += "\n";
  }
  for (std::size_t i = 0; i < sets.size(); ++i) text += set_line(i, sets[i]) + "\n";
  return text + fmt::format("each chunk once from cache_bytes {}; no read from the second epoch on from {}",
                            format_bytes_ceil(cache_bytes_decode_once), format_bytes_ceil(cache_bytes_fit));
}

struct DataLoader::Iterator::Cursor {
  Cursor(State& of, ProvideOutput into) : loader(of), provide(std::move(into)) {}

  State& loader;
  const ProvideOutput provide;
  bool fetched = false;
  bool failed = false;  // the current batch threw; the next increment skips it
  OptionalBatch<Batch> batch;

  // Fetches the batch on first use, so that `begin()` does not block.
  bool at_end() {
    if (!fetched) {
      failed = true;
      batch = loader.next(provide);
      failed = false;
      fetched = true;
    }
    return !batch.has_value();
  }
};

DataLoader::Iterator DataLoader::begin() & { return begin_into({}); }

DataLoader::Iterator DataLoader::begin_into(ProvideOutput provide) {
  start_epoch();
  if (!state_->resolved.placement.gpu) provide = {};
  return Iterator(std::make_shared<Iterator::Cursor>(*state_, std::move(provide)));
}

Batch& DataLoader::Iterator::current() const {
  if (!cursor_ || cursor_->at_end()) {
    throw std::out_of_range("h5feed: attempted to dereference a data loader iterator past the end");
  }
  return *cursor_->batch;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (cursor_ && std::exchange(cursor_->failed, false)) return *this;
  if (!cursor_ || cursor_->at_end()) {
    throw std::out_of_range("h5feed: attempted to increment a data loader iterator past the end");
  }
  cursor_->batch.reset();
  cursor_->fetched = false;
  return *this;
}

bool DataLoader::Iterator::operator==(const Iterator& other) const {
  const bool at_end = !cursor_ || cursor_->at_end();
  const bool other_at_end = !other.cursor_ || other.cursor_->at_end();
  return at_end || other_at_end ? at_end == other_at_end : cursor_ == other.cursor_;
}

}  // namespace h5feed
