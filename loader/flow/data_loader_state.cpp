// SPDX-License-Identifier: Apache-2.0
#include "flow/data_loader_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <span>
#include <utility>

#include "base/byte_units.hpp"
#include "flow/chunks/preload.hpp"
#include "flow/measure/trace_file.hpp"
#include "flow/measure/trace_span.hpp"
#include "flow/resolve/advice.hpp"
#include "flow/resolve/host_share.hpp"
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
    : dataset(DatasetAccess::state(handle)),
      chosen(DatasetAccess::chosen(handle)),
      sampler(user.sampler),
      batch_sampler(user.batch_sampler),
      limits(system_limits()),
      resolved(resolve(user, *dataset, chosen.get(), limits)),
      keeps_on_gpu(resolved.placement.gpu && user.gpu_cache_bytes.enabled()),
      given_budget(user.memory_budget_bytes),
      headroom(user.headroom),
      loader_number(next_number()),
      trace(make_trace(user)),
      batches_per_epoch(EpochPlan(plan_spec(), 0).num_batches()),
      tuning(resolved.options.self_tuning
                 ? std::make_optional<SelfTuning>(
                       tuning_bounds(user), counters, thread_clocks,
                       user.cpu_limit ? "cpu_limit"
                                      : cpu_share_bound_by(limits, resolved.options.local_world_size))
                 : std::nullopt),
      ledger(counters),
      gpu_window(user.gpu_probe),
      epoch_log(user.epoch_log),
      layout(cache_layout(*dataset, resolved.options)),
      own_cache(resolved.options.cache_policy == CachePolicy::lru
                    ? nullptr
                    : std::make_unique<ChunkCache>(layout.chunk_bytes, layout.staying_bytes)),
      cache(own_cache ? *own_cache : resolved.group->cache()),
      device(make_device(resolved.placement, user, resolved.format, resolved.options, slot_bytes(),
                         {.most = chosen ? chosen->size() : plan_spec().num_samples, .foresee = foresee()})),
      faults(user.on_error == OnError::fail ? nullptr
                                            : std::make_unique<Faults>(*dataset, chosen, user, counters)),
      assembler(*dataset, resolved, device.get(), counters, faults ? &faults->choice : nullptr),
      chunks({*dataset, resolved.options, cache, layout.samples, counters, on_device(), in_use().reads,
              &thread_clocks, &resolved.group->spare()}),
      look_ahead(look_ahead_room(*dataset, resolved.options, in_use().workers, in_use().batches)),
      prefetcher(assembler, chunks, ring, look_ahead,
                 {in_use().workers, user.worker_init_fn, user.collate_fn, trace,
                  faults ? &faults->bad : nullptr, counters, tuning ? &thread_clocks : nullptr}) {
  assembler.set_prefetched(in_use().batches);
  upcoming.select(0, whole_epoch());
  if (user.preload) preload();
  if (batches_per_epoch == 0 && dataset->data.info().rows() > 0) warn_of_empty_epochs();
  const std::string advice = shuffle_advice(*dataset, resolved.options);
  if (!advice.empty()) log(LogLevel::warning, advice);
  const std::string unscaled = normalize_advice(*dataset, resolved.placement.conversion);
  if (!unscaled.empty()) log(LogLevel::warning, unscaled);
  if (user.augment && has_masks(*dataset)) {
    log(LogLevel::warning,
        "augment crops and flips only the images: targets and fields of two or more dimensions stay as "
        "stored; apply the batch's transforms to them");
  }
  if (resolved.options.world_size > 1) {
    log(LogLevel::info,
        fmt::format("rank {} of {}: seed {}, plan {:016x}, {} batches an epoch", resolved.options.rank,
                    resolved.options.world_size, resolved.options.seed, plan_identity(), batches_per_epoch));
  }
}

void DataLoader::State::warn_of_empty_epochs() const {
  const std::uint64_t fewest = EpochPlan(plan_spec(), 0).fewest_samples();
  const std::int64_t ranks = resolved.options.world_size;
  std::string why = "the sampler gives no samples";
  if (fewest > 0) {
    why = fmt::format("a rank has {0} of the samples, too few for one; use batch_size ≤ {0}", fewest);
  } else if (ranks > 1) {
    why = fmt::format("one of the {} ranks has no samples; use fewer ranks", ranks);
  }
  log(LogLevel::warning, "epochs have no batches: " + why);
}

void DataLoader::State::preload() {
  if (resolved.options.row_reads) {
    log(LogLevel::warning, "preload has no effect: rows are read directly into batches and bypass the cache");
    return;
  }
  const std::uint64_t needed = cached_data_bytes(*dataset, resolved.options);
  if (needed > resolved.options.cache_bytes) {
    log(LogLevel::warning,
        fmt::format("preload: the decoded data does not fit cache_bytes {}; it would from {}",
                    format_bytes(resolved.options.cache_bytes), format_bytes_ceil(needed)));
    return;
  }
  const auto threads = static_cast<unsigned>(resolved.options.concurrent_decodes);
  preload_chunks(*dataset, chosen.get(), chunks, tuning ? std::min(threads, limits.cpus) : threads);
}

Stretch DataLoader::State::whole_epoch() const noexcept {
  return {.end_repeat = resolved.options.echo_factor};
}

PlanSpec DataLoader::State::plan_spec() const {
  return make_plan_spec({sampler, batch_sampler, chosen}, *dataset, resolved.options);
}

std::shared_ptr<const EpochPlan> DataLoader::State::plan_of(const Stretch& part,
                                                            std::uint64_t of_epoch) const {
  PlanSpec spec = plan_spec();
  spec.start = part.start;
  spec.end = part.end;
  return std::make_shared<const EpochPlan>(spec, of_epoch);
}

RowKeeper::OnDevice DataLoader::State::on_device() const {
  if (!keeps_on_gpu) return {};
  return [this](std::uint64_t sample) { return device->holds(static_cast<std::int64_t>(sample)); };
}

Foresee DataLoader::State::foresee() {
  if (!keeps_on_gpu) return {};
  return [this](std::span<const std::int64_t> samples, std::uint64_t after) {
    const RowFuture::DueTimes times = chunks.future().due_times();
    Foreseen foreseen{.end = times.end()};
    foreseen.due.reserve(samples.size());
    for (const std::int64_t sample : samples)
      foreseen.due.push_back(times.due_after(static_cast<std::uint64_t>(sample), after).has_value());
    return foreseen;
  };
}

SlotBytes DataLoader::State::slot_bytes() const {
  const auto rows = static_cast<std::size_t>(resolved.options.max_batch_rows);
  return {rows * resolved.format.data_row_bytes, rows * resolved.format.target_row_bytes};
}

WorkerController::Bounds DataLoader::State::tuning_bounds(const DataLoaderOptions& user) const {
  const ResolvedOptions& options = resolved.options;
  WorkerController::Bounds bounds{.workers = options.num_workers,
                                  .cpu_limit = options.cpu_limit,
                                  .batches = options.prefetch_batches,
                                  .reads = options.io_depth};
  if (user.prefetch_factor) {
    bounds.per_worker = static_cast<std::uint64_t>(*user.prefetch_factor);
  } else if (decodes_again(*dataset, options, options.cache_bytes)) {
    bounds.fill = true;
  }
  return bounds;
}

void DataLoader::State::tune(const BatchJob& taken) {
  if (!tuning) return;
  const std::optional<SelfTuning::Choice> choice = tuning->delivered(ring.num_complete(), taken.number > 0);
  if (!choice) return;
  look_ahead.set_room(look_ahead_room(*dataset, resolved.options, choice->workers, choice->batches));
  assembler.set_prefetched(choice->batches);
  chunks.set_reads_ahead(choice->reads);
  prefetcher.set_active(choice->workers);
}

void DataLoader::State::set_epoch(std::uint64_t number) { upcoming.select(number, whole_epoch()); }

void DataLoader::State::start_epoch() {
  const bool may_be_prefetched = !delivering.running;
  Upcoming after;
  after.select(upcoming.epoch + 1, whole_epoch());
  delivering.running = false;  // also if the sampler of the epoch throws
  start_round(upcoming.stretches.front(), upcoming.epoch, may_be_prefetched);
  // Nothing here throws: an epoch that has half begun could not be started again.
  delivering.epoch = upcoming.epoch;
  delivering.rest.swap(upcoming.stretches);
  delivering.rest.pop_front();
  upcoming.epoch = after.epoch;
  upcoming.stretches.swap(after.stretches);
  delivering.bad_samples = 0;
  delivering.running = true;
  epoch_clock.start();
  gpu_window.start();
  epoch_log.begin(delivering.epoch, counted());
  issue_jobs();
}

void DataLoader::State::start_round(const Stretch& part, std::uint64_t of_epoch, bool may_be_prefetched) {
  const auto front = ring.front();
  const std::uint64_t round = ++delivering.round;
  const bool prefetched = may_be_prefetched && front && front->round == round && front->number == 0 &&
                          issuing.is_of(part, of_epoch);
  issuing.failed = false;
  if (!prefetched) {
    ring.cancel_all();
    issue(part, of_epoch, round);
  }
  delivering.begin_stretch(part, issuing.plan);
  waiting_since.reset();
}

RowFuture::Round DataLoader::State::round_of(std::shared_ptr<const EpochPlan> of_plan,
                                             std::uint64_t of_epoch) const {
  const std::uint64_t start = of_plan->start();
  const std::uint64_t end = of_plan->end();
  return {std::move(of_plan), resolved.options.seed, of_epoch, start, end};
}

void DataLoader::State::issue(const Stretch& part, std::uint64_t of_epoch, std::uint64_t in_round) {
  const std::shared_ptr<const EpochPlan> plan = plan_of(part, of_epoch);
  if (resolved.options.cache_policy == CachePolicy::clairvoyant || keeps_on_gpu) {
    // The next round is only predicted: the rest of the epoch after a partial stretch, else the next epoch.
    const std::uint64_t after = part.finishes_echo() ? of_epoch : of_epoch + 1;
    Stretch next = whole_epoch();
    if (part.finishes_echo()) next.start = part.end;
    chunks.future().issue(round_of(plan, of_epoch), round_of(plan_of(next, after), after));
  }
  // After all that may throw: jobs of a round that `future` does not know would be taken for others.
  issuing.start(part, of_epoch, plan, in_round);
}

// Fills the ring with as many jobs as are to be prefetched. With workers, jobs of the next round follow the
// running one without a gap; if `set_epoch` selects another epoch after that, they are dropped when it
// starts.
void DataLoader::State::issue_jobs() {
  if (replayed) return;
  const std::uint64_t wanted = in_use().batches;
  while (ring.size() < wanted) {
    if (issuing.round_issued()) {
      const bool ahead_already = issuing.round > delivering.round;
      if (resolved.options.num_workers == 0 || ahead_already || !issue_next_round()) return;
      continue;
    }
    look_ahead.advance(issuing.plan, issuing.number);
    auto job = std::make_shared<BatchJob>(issuing.ticket, issuing.round, issuing.plan, issuing.epoch,
                                          issuing.number);
    job->first_turn = chunks.future().first_turn(job->number);
    job->seed = resolved.options.seed;
    job->first_repeat = issuing.stretch.first_repeat;
    job->end_repeat = issuing.stretch.end_repeat;
    ring.push(job);
    chunks.forget_before(ring.front()->first_turn);
    try {
      prefetcher.submit(std::move(job));
    } catch (...) {
      ring.drop_last();
      throw;
    }
    ++issuing.ticket;
    ++issuing.number;
  }
}

void DataLoader::State::steer(const BatchJob& taken) {
  try {
    tune(taken);
    if (resolved.options.num_workers > 0) issue_jobs();
  } catch (const std::bad_alloc&) {
    // The batch is right. Whoever waits for the next one issues its job, and throws if memory still lacks.
  }
}

void DataLoader::State::ensure_issued() {
  if (resolved.options.num_workers == 0 || ring.size() == 0) issue_jobs();
}

// Returns false if issuing failed, e.g. because a sampler threw. The call that starts the epoch asks the
// sampler again and reports the error.
bool DataLoader::State::issue_next_round() {
  if (issuing.failed) return false;
  const bool goes_on = delivering.running && !delivering.rest.empty();
  try {
    issue(goes_on ? delivering.rest.front() : upcoming.stretches.front(),
          goes_on ? delivering.epoch : upcoming.epoch, delivering.round + 1);
    return true;
  } catch (...) {
    issuing.failed = true;
    return false;
  }
}

void DataLoader::State::warm_up() {
  if (delivering.running || resolved.options.num_workers == 0 || ring.front() || !issue_next_round()) return;
  issue_jobs();
}

void DataLoader::State::count_bad_samples(const BatchJob& job) {
  if (job.bad_samples == 0) return;
  faults->choice.check_quota(delivering.bad_samples, job);
  const bool skips = faults->choice.skips();
  Counters::add(skips ? counters.samples_skipped : counters.samples_replaced, job.bad_samples);
}

Batch DataLoader::State::first_delivery(BatchJob& job, const ProvideOutput& provide) {
  const std::exception_ptr error = job.take_error();
  // The bad samples of a batch in which a function of the user threw were not left out of anything. More than
  // the quota of them throw before any function is called.
  if (!error || (faults && faults->choice.exceeds_quota(job.bad_samples, *job.plan)))
    delivering.bad_samples += job.bad_samples;
  if (error) std::rethrow_exception(error);
  delivering.echoes = std::move(job.echoes);
  std::ranges::reverse(delivering.echoes);
  Batch batch = device->deliver(job.ticket, std::move(job.batch), provide);
  count_bad_samples(job);
  batch.repeat = delivering.first_repeat = job.first_repeat;
  delivering.repeats = job.first_repeat + 1;
  if (delivering.echo_pending() && resolved.placement.gpu) {
    delivering.echo_like = batch;
    delivering.echo_like.gpu.reset();
  }
  return batch;
}

Batch DataLoader::State::replay(const ProvideOutput& provide) {
  ++replays;
  Batch batch = resolved.placement.gpu ? device->deliver_again(*replayed, replays, provide) : *replayed;
  batch.epoch = delivering.epoch;
  batch.number = delivering.delivered;
  ++delivering.delivered;
  ++delivering.taken;
  return batch;
}

Batch DataLoader::State::next_echo(const ProvideOutput& provide) {
  const std::int64_t repeat = delivering.repeats++;
  Batch batch;
  if (!resolved.placement.gpu) {
    batch = device->deliver(0, std::move(delivering.echoes.back()), provide);
    delivering.echoes.pop_back();
  } else {
    const TraceSpan span(trace.get(), Stage::transfer, delivering.taken - 1);
    Batch& like = delivering.echo_like;
    const auto& augmentation = resolved.placement.conversion.augmentation;
    if (augmentation) {
      like.transforms = augmentation->draw_all(resolved.options.seed, delivering.epoch, repeat, like.indices);
    }
    batch =
        device->deliver_again(like, static_cast<std::uint64_t>(repeat - delivering.first_repeat), provide);
  }
  batch.repeat = repeat;
  return batch;
}

OptionalBatch<Batch> DataLoader::State::next(const ProvideOutput& provide) {
  if (tuning) tuning->log_if_lasting();
  if (!reach_batch()) {
    wait_for_workers();  // an epoch without batches has not waited for them yet
    delivering.running = false;
    epoch_clock.stop();
    gpu_window.stop();
    try {
      epoch_log.end(counted(), verdict_facts());
      if (stats_file.publishes()) publish();
      advise_storage();
    } catch (const std::bad_alloc&) {
      // Lines are lost. Thrown on, the end of the epoch would be, and the next call would begin another one.
    }
    return std::nullopt;
  }
  const bool echoed = delivering.echo_pending();
  const std::shared_ptr<BatchJob> job = echoed || replayed ? nullptr : take_job();
  Batch batch;
  try {
    batch = replayed ? replay(provide) : echoed ? next_echo(provide) : first_delivery(*job, provide);
  } catch (...) {
    delivering.drop_repeats();
    Counters::add(counters.errors, 1);
    throw;
  }
  const auto samples = static_cast<std::uint64_t>(batch.size());
  Counters::add(counters.batches, 1);
  Counters::add(counters.samples, samples);
  if (batch.repeat > 0) Counters::add(counters.samples_echoed, samples);
  Counters::add(counters.bytes_delivered, samples * dataset->sample_bytes());
  if (headroom && !replayed) {
    replayed = batch;
    replayed->gpu.reset();
  }
  if (stats_file.due(now_ns())) publish();
  return batch;
}

}  // namespace h5feed
