// SPDX-License-Identifier: Apache-2.0
#include "flow/data_loader_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "flow/chunks/preload.hpp"
#include "flow/measure/trace_span.hpp"
#include "flow/resolve/advice.hpp"
#include "flow/resolve/resolve_order.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

// Returns true if the target or a named field has two or more dimensions and so may hold pixels.
bool has_masks(const DatasetState& dataset) {
  const auto is_mask = [](const Field& field) { return field.geometry.shape.size() >= 2; };
  return (dataset.target && is_mask(*dataset.target)) ||
         std::ranges::any_of(dataset.fields,
                             [&](const NamedField& field) { return field.rows && is_mask(*field.rows); });
}

}  // namespace

DataLoader::State::State(Dataset handle, const DataLoaderOptions& user)
    : dataset(handle.state()),
      chosen(handle.chosen()),
      sampler(user.sampler),
      batch_sampler(user.batch_sampler),
      limits(system_limits()),
      placement(resolve_placement(user, *dataset)),
      group(LoaderGroup::of(*dataset)),
      options(resolve_order(user, *dataset, chosen.get())),
      format(assembly_format(placement, user, *dataset, static_cast<std::uint64_t>(options.max_batch_rows))),
      membership(join_group(user)),
      budget_given(user.memory_budget_bytes.has_value()),
      trace(user.trace),
      batches_per_epoch(EpochPlan(plan_spec(), 0).num_batches()),
      gpu_window(user.gpu_probe),
      layout(cache_layout(*dataset, options)),
      own_cache(options.cache_policy == CachePolicy::lru
                    ? nullptr
                    : std::make_unique<ChunkCache>(layout.chunk_bytes, layout.staying_bytes)),
      cache(own_cache ? *own_cache : group->cache()),
      future(static_cast<std::uint64_t>(options.batch_size)),
      device(make_device(placement, user, format, options, slot_bytes())),
      assembler({*dataset, options, format, placement, cache, future, *device, counters}),
      look_ahead(look_ahead_room(*dataset, options)),
      prefetcher(assembler, ring, look_ahead,
                 {options.num_workers, options.io_depth, user.worker_init_fn, user.collate_fn, user.trace}) {
  next_stretches = {whole_epoch()};
  if (user.preload) preload();
  if (batches_per_epoch == 0 && dataset->data.info().rows() > 0) warn_of_empty_epochs();
  const std::string advice = shuffle_advice(*dataset, options);
  if (!advice.empty()) log(LogLevel::warning, advice);
  const std::string unscaled = normalize_advice(*dataset, placement.conversion);
  if (!unscaled.empty()) log(LogLevel::warning, unscaled);
  if (user.augment && has_masks(*dataset)) {
    log(LogLevel::warning,
        "augment flips and crops the images alone: targets and fields of two dimensions and more stay as "
        "stored; "
        "Batch::transforms tells what to do with them");
  }
  if (options.world_size > 1) {
    log(LogLevel::info, fmt::format("rank {} of {}: seed {}, plan {:016x}, {} batches an epoch", options.rank,
                                    options.world_size, options.seed, plan_identity(), batches_per_epoch));
  }
}

std::unique_ptr<LoaderGroup::Membership> DataLoader::State::join_group(const DataLoaderOptions& user) {
  return group->join([&](const MemoryUse& others) {
    const Resolution resolution = resolve_options(user, *dataset, options, format, limits, others);
    options = resolution.options;
    return resolution.memory;
  });
}

void DataLoader::State::warn_of_empty_epochs() const {
  log(LogLevel::warning,
      fmt::format(
          "epochs have no batches: a rank has {} of the samples{}; use batch_size ≤ {}, or fewer ranks",
          options.samples_per_epoch, options.drop_last ? ", fewer than a batch, and drop_last is set" : "",
          options.samples_per_epoch));
}

void DataLoader::State::preload() {
  if (options.row_reads) {
    log(LogLevel::warning, "preload has no effect: rows are read directly into batches and bypass the cache");
    return;
  }
  const std::uint64_t needed = cached_data_bytes(*dataset, options);
  if (needed > options.cache_bytes) {
    log(LogLevel::warning,
        fmt::format("preload: the decoded data does not fit cache_bytes {}; it would from {}",
                    format_bytes(options.cache_bytes), format_bytes_ceil(needed)));
    return;
  }
  preload_chunks(*dataset, chosen.get(), cache, counters, static_cast<unsigned>(options.concurrent_decodes));
}

Stretch DataLoader::State::whole_epoch() const noexcept { return {.end_repeat = echo_factor()}; }

PlanSpec DataLoader::State::plan_spec() const {
  return make_plan_spec({sampler, batch_sampler, chosen}, *dataset, options);
}

std::shared_ptr<const EpochPlan> DataLoader::State::plan_of(const Stretch& part,
                                                            std::uint64_t of_epoch) const {
  PlanSpec spec = plan_spec();
  spec.start = part.start;
  spec.end = part.end;
  return std::make_shared<const EpochPlan>(spec, of_epoch);
}

SlotBytes DataLoader::State::slot_bytes() const {
  const auto rows = static_cast<std::size_t>(options.max_batch_rows);
  return {rows * format.data_row_bytes, rows * format.target_row_bytes};
}

DataFacts DataLoader::State::data_facts() const {
  DataFacts facts;
  facts.device = device->name();
  facts.samples = options.samples_per_epoch;
  facts.chunks = options.chunks_per_epoch * dataset->data.map.pieces();
  facts.fit_bytes = cached_data_bytes(*dataset, options);
  facts.cache_bytes = own_cache ? options.cache_bytes : cache.capacity_bytes();
  facts.budget_bound_by = budget_given ? "memory_budget_bytes" : limits.memory_bound_by;
  for (std::size_t number = 0; number < dataset->num_fields(); ++number) {
    const Field* const field = dataset->field(number);
    if (field != nullptr && !field->is_resident()) facts.stored_bytes += field->info().stored_bytes;
  }
  std::call_once(forecast_made, [this] {
    if (rows_are_foreseeable(*dataset, options)) forecast = forecast_rows(*dataset, options);
  });
  facts.optimum = forecast;
  return facts;
}

void DataLoader::State::set_epoch(std::uint64_t number) {
  next_epoch = number;
  next_stretches = {whole_epoch()};
}

void DataLoader::State::start_epoch() {
  const bool may_be_prefetched = !running;
  running = false;  // also if the sampler of the epoch throws
  start_round(next_stretches.front(), next_epoch, may_be_prefetched);
  epoch = next_epoch;
  rest = std::move(next_stretches);
  rest.pop_front();
  set_epoch(epoch + 1);
  running = true;
  epoch_clock.start();
  gpu_window.start();
  fill();
}

void DataLoader::State::start_round(const Stretch& part, std::uint64_t of_epoch, bool may_be_prefetched) {
  const auto front = ring.front();
  const bool prefetched = may_be_prefetched && front && front->round == round + 1 && front->number == 0 &&
                          issue_epoch == of_epoch && issue_stretch == part;
  next_epoch_failed = false;
  ++round;
  if (!prefetched) {
    ring.cancel_all();
    issue(part, of_epoch, round);
  }
  plan = issue_plan;
  stretch = part;
  waiting_since.reset();
  delivered = 0;
  repeats = 0;
}

RowFuture::Round DataLoader::State::round_of(std::shared_ptr<const EpochPlan> of_plan,
                                             std::uint64_t of_epoch) const {
  const std::uint64_t start = of_plan->start();
  const std::uint64_t end = of_plan->end();
  return {std::move(of_plan), options.seed, of_epoch, start, end};
}

void DataLoader::State::issue(const Stretch& part, std::uint64_t of_epoch, std::uint64_t in_round) {
  issue_plan = plan_of(part, of_epoch);
  issue_stretch = part;
  issue_epoch = of_epoch;
  issue_number = 0;
  issue_round = in_round;
  if (options.cache_policy == CachePolicy::clairvoyant) {
    // The next round is only predicted: the rest of the epoch after a partial stretch, else the next epoch.
    const std::uint64_t after = part.finishes_echo() ? of_epoch : of_epoch + 1;
    Stretch next = whole_epoch();
    if (part.finishes_echo()) next.start = part.end;
    future.issue(round_of(issue_plan, of_epoch), round_of(plan_of(next, after), after));
  }
}

// Fills the ring with up to `prefetch_batches` jobs. With workers, jobs of the next round follow the running
// one without a gap; if `set_epoch` selects another epoch after that, they are dropped when it starts.
void DataLoader::State::fill() {
  while (ring.size() < options.prefetch_batches) {
    if (issue_number == issue_plan->num_batches()) {
      const bool ahead_already = issue_round > round;
      if (options.num_workers == 0 || ahead_already || !issue_next_round()) return;
      continue;
    }
    look_ahead.advance(issue_plan, issue_number);
    auto job =
        std::make_shared<BatchJob>(next_ticket++, issue_round, issue_plan, issue_epoch, issue_number++);
    job->first_turn = future.first_turn(job->number);
    job->seed = options.seed;
    job->first_repeat = issue_stretch.first_repeat;
    job->end_repeat = issue_stretch.end_repeat;
    ring.push(job);
    assembler.forget_before(ring.front()->first_turn);
    prefetcher.submit(std::move(job));
  }
}

// Returns false if issuing failed, e.g. because a sampler threw. The call that starts the epoch asks the
// sampler again and reports the error.
bool DataLoader::State::issue_next_round() {
  if (next_epoch_failed) return false;
  const bool goes_on = running && !rest.empty();
  try {
    issue(goes_on ? rest.front() : next_stretches.front(), goes_on ? epoch : next_epoch, round + 1);
    return true;
  } catch (...) {
    next_epoch_failed = true;
    return false;
  }
}

void DataLoader::State::warm_up() {
  if (running || options.num_workers == 0 || ring.front() || !issue_next_round()) return;
  fill();
}

bool DataLoader::State::echo_pending() const noexcept { return repeats > 0 && repeats < stretch.end_repeat; }

Batch DataLoader::State::first_delivery(BatchJob& job, const ProvideOutput& provide) {
  if (const std::exception_ptr error = job.take_error()) std::rethrow_exception(error);
  echoes = std::move(job.echoes);
  std::ranges::reverse(echoes);
  Batch batch = device->deliver(job.ticket, std::move(job.batch), provide);
  batch.repeat = first_repeat = job.first_repeat;
  repeats = first_repeat + 1;
  if (echo_pending() && placement.gpu) {
    echo_like = batch;
    echo_like.gpu.reset();
  }
  return batch;
}

Batch DataLoader::State::next_echo(const ProvideOutput& provide) {
  const std::uint64_t repeat = repeats++;
  Batch batch;
  if (!placement.gpu) {
    batch = device->deliver(0, std::move(echoes.back()), provide);
    echoes.pop_back();
  } else {
    const TraceSpan span(trace.get(), Stage::transfer, taken - 1);
    const auto& augmentation = placement.conversion.augmentation;
    if (augmentation) {
      echo_like.transforms = augmentation->draw_all(options.seed, epoch, repeat, echo_like.indices);
    }
    batch = device->deliver_again(echo_like, repeat - first_repeat, provide);
  }
  batch.repeat = repeat;
  return batch;
}

OptionalBatch<Batch> DataLoader::State::next(const ProvideOutput& provide) {
  if (!reach_batch()) {
    running = false;
    epoch_clock.stop();
    gpu_window.stop();
    return std::nullopt;
  }
  const bool echoed = echo_pending();
  const std::shared_ptr<BatchJob> job = echoed ? nullptr : take_job();
  Batch batch;
  try {
    batch = echoed ? next_echo(provide) : first_delivery(*job, provide);
  } catch (...) {
    repeats = 0;
    Counters::add(counters.errors, 1);
    throw;
  }
  const auto samples = static_cast<std::uint64_t>(batch.size());
  std::uint64_t sample_bytes = 0;
  for (std::size_t number = 0; number < dataset->num_fields(); ++number) {
    if (const Field* const field = dataset->field(number)) sample_bytes += field->info().row_bytes();
  }
  Counters::add(counters.batches, 1);
  Counters::add(counters.samples, samples);
  if (batch.repeat > 0) Counters::add(counters.samples_echoed, samples);
  Counters::add(counters.bytes_delivered, samples * sample_bytes);
  return batch;
}

}  // namespace h5feed
