// SPDX-License-Identifier: Apache-2.0
#include "flow/batches/prefetcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/option_spelling.hpp"
#include "base/threads/thread_limit.hpp"
#include "flow/measure/trace_span.hpp"
#include "h5feed/error.hpp"
#include "h5feed/interrupt.hpp"

namespace h5feed {
namespace {

// Plans of one batch, each of which met bad data that was not known before. A plan meets all bad data of its
// samples; further plans only meet that of replacements, which are drawn again at most a hundred times.
constexpr std::uint32_t kMostPlans = 200;

}  // namespace

Prefetcher::Prefetcher(const BatchAssembler& assembler, ChunkLoader& chunks, TicketRing& ring,
                       LookAhead& look_ahead, Settings settings)
    : assembler_(assembler),
      chunks_(chunks),
      ring_(ring),
      look_ahead_(look_ahead),
      settings_(std::move(settings)),
      uninitialized_(settings_.worker_init_fn ? settings_.num_workers : 0),
      active_(settings_.num_workers) {
  try {
    chunks_.start_read_ahead([this](ChunkKey key) { finish_visits(serve(chunks_.load_stored(key))); });
    for (std::int64_t worker = 0; worker < settings_.num_workers; ++worker) start_worker();
  } catch (...) {
    const std::size_t started = workers_.size();
    stop();
    rethrow_of_threads(spelled("num_workers"), settings_.num_workers, started);
  }
}

void Prefetcher::start_worker() {
  workers_.emplace_back([this, worker = static_cast<std::int64_t>(workers_.size())] { work(worker); });
}

void Prefetcher::set_active(std::int64_t count) {
  const std::int64_t before = active_.count();
  try {
    while (static_cast<std::int64_t>(workers_.size()) < count) start_worker();
  } catch (const std::exception&) {
    count = static_cast<std::int64_t>(workers_.size());
  }
  active_.set(count);
  if (count < before) queue_->wake_all();
}

Prefetcher::~Prefetcher() { stop(); }

// Ends all threads. The workers first: they use the read-ahead.
void Prefetcher::stop() noexcept {
  queue_->stop();
  active_.stop();
  workers_.clear();
  chunks_.stop_read_ahead();
}

void Prefetcher::submit(std::shared_ptr<BatchJob> job) { queue_->push({std::move(job), kPlanStep}); }

void Prefetcher::run_one() {
  if (queue_->take_lost()) {
    run_lost(caller_scratch_);
    return;
  }
  Task task;
  if (queue_->pop(task)) run(task, caller_scratch_, true);
}

bool Prefetcher::wait_initialized(const TicketRing::Deadline& deadline) {
  MutexLock lock(init_mutex_);
  while (uninitialized_ > 0) {
    if (!deadline) {
      init_done_.wait(lock);
    } else if (!init_done_.wait_until(lock, *deadline) && uninitialized_ > 0) {
      return false;
    }
  }
  if (init_error_) std::rethrow_exception(init_error_);
  return true;
}

bool Prefetcher::initialize(std::int64_t worker) {
  std::exception_ptr error;
  try {
    settings_.worker_init_fn(worker);
  } catch (...) {
    error = std::current_exception();
  }
  const bool initialized = error == nullptr;
  const MutexLock lock(init_mutex_);
  if (!init_error_) init_error_ = std::move(error);
  if (worker < settings_.num_workers) --uninitialized_;
  init_done_.notify_all();
  return initialized;
}

void Prefetcher::work(std::int64_t worker) {
  const ThreadClocks::Enlisted enlisted(settings_.clocks);
  const InterruptCheck check([this] { queue_->throw_if_stopped(); });  // Ends waits of `isolation`
  if (settings_.worker_init_fn && !initialize(worker)) return;
  BatchAssembler::Scratch scratch;
  const auto inactive = [&] { return !active_.contains(worker); };
  while (!queue_->stopped()) {
    if (queue_->take_lost()) run_lost(scratch);
    if (inactive()) {
      // A plan that this worker has parked may be the only work: the others must find it.
      unpark(false);
      active_.wait(worker);
      continue;
    }
    Task task;
    if (!queue_->try_pop(task)) {
      if (run_parked(scratch, false) || load_ahead_measured() || run_parked(scratch, true)) continue;
      if (!queue_->pop(task, inactive)) continue;
    }
    run_measured(task, scratch);
  }
}

void Prefetcher::run_measured(const Task& task, BatchAssembler::Scratch& scratch) {
  const TimeInto busy(settings_.counters.busy_ns);
  run(task, scratch, false);
}

bool Prefetcher::load_ahead_measured() {
  const Stopwatch watch;
  const bool loaded = load_ahead();
  if (loaded) Counters::add(settings_.counters.busy_ns, watch.elapsed_ns());
  return loaded;
}

void Prefetcher::run(const Task& task, BatchAssembler::Scratch& scratch, bool wait) {
  if (task.step == kPlanStep) {
    if (!task.job->cancelled.load(std::memory_order_acquire)) run_plan(task, scratch, wait);
  } else {
    run_visit({task.job, task.step - 1}, scratch);
  }
}

// Plans the earliest parked job. Returns false if there is none, another worker is waiting for a slot
// already, or there is still no slot.
bool Prefetcher::run_parked(BatchAssembler::Scratch& scratch, bool wait) {
  Task task;
  {
    const MutexLock lock(parked_mutex_);
    if (parked_.empty() || waits_for_slot_) return false;
    const auto earliest = std::ranges::min_element(parked_, {}, [](const Task& t) { return t.job->ticket; });
    task = std::move(*earliest);
    parked_.erase(earliest);
    waits_for_slot_ = wait;
  }
  if (task.job->cancelled.load(std::memory_order_acquire)) {
    if (wait) unpark(true);
    return true;
  }
  run_plan(task, scratch, wait);
  const MutexLock lock(parked_mutex_);
  return std::ranges::find(parked_, task.job, &Task::job) == parked_.end();
}

// Queues all parked plans again: each may find a slot now, or be the next to wait for one. Plans for which
// the queue has no memory stay parked, and another worker is woken for them. `waited`: this worker was the
// one that waits for a slot, and has ended that.
void Prefetcher::unpark(bool waited) noexcept {
  const MutexLock lock(parked_mutex_);
  if (waited) waits_for_slot_ = false;
  while (!parked_.empty()) {
    if (!queue_->try_push(parked_.back())) {
      queue_->note_lost();
      return;
    }
    parked_.pop_back();
  }
}

// Does the visits of all jobs of the ring that nobody has claimed, since the tasks of some were lost.
void Prefetcher::run_lost(BatchAssembler::Scratch& scratch) {
  std::uint64_t ticket = 0;
  while (const std::shared_ptr<BatchJob> job = ring_.find_from(ticket)) {
    ticket = job->ticket + 1;
    if (!job->announced.load(std::memory_order_acquire)) continue;
    for (std::uint32_t number = 0; number < job->visits.size(); ++number) {
      if (!job->visits[number].direct) run_visit({job, number}, scratch);
    }
  }
}

void Prefetcher::run_plan(const Task& task, BatchAssembler::Scratch& scratch, bool wait) {
  BatchJob& job = *task.job;
  std::uint32_t visits = 0;
  {
    const TraceSpan span(settings_.trace.get(), Stage::plan, job.ticket);
    try {
      if (!assembler_.plan(job, wait)) {
        const MutexLock lock(parked_mutex_);
        parked_.push_back(task);
        return;
      }
      chunks_.announce(task.job);
      visits = static_cast<std::uint32_t>(job.visits.size());
      job.announced.store(true, std::memory_order_release);
    } catch (...) {
      job.fail(std::current_exception());
      job.visits.clear();
    }
  }
  if (wait) unpark(true);
  if (visits == 0) complete(job);
  for (std::uint32_t number = 0; number < visits; ++number) {
    if (!queue_->try_push({task.job, number + 1})) run_visit({task.job, number}, scratch);
  }
}

void Prefetcher::run_visit(const VisitRef& ref, BatchAssembler::Scratch& scratch) {
  if (ref.job->cancelled.load(std::memory_order_acquire)) {
    chunks_.drop(ref);
    return;
  }
  std::vector<VisitRef> done;
  std::span<const VisitRef> finished;
  {
    const TraceSpan span(settings_.trace.get(), Stage::read_decode, ref.job->ticket);
    try {
      done = visit(ref, scratch);
      finished = done;
    } catch (...) {
      take_error(ref);
      finished = {&ref, 1};
    }
  }
  finish_visits(finished);
}

// Returns the visits that are done now: this one and, if it loaded a chunk, others that waited for that
// chunk. Empty if another thread does the visit, or if the chunk is being loaded or fetched; the visit is
// then queued again. If it throws, the visit was this thread's to do.
std::vector<VisitRef> Prefetcher::visit(const VisitRef& ref, BatchAssembler::Scratch& scratch) {
  // With `on_error`, all data of a failed batch is tried: whether a batch exceeds the quota must not depend
  // on what was read before a function of the user threw.
  if (settings_.bad == nullptr && ref.job->failed.load(std::memory_order_acquire)) {
    return chunks_.drop(ref) ? std::vector<VisitRef>{ref} : std::vector<VisitRef>();
  }
  if (is_known_bad(ref)) {
    if (!chunks_.drop(ref)) return {};
    ref.job->spoiled.store(true, std::memory_order_release);
    return {ref};
  }
  if (ref.visit().direct) {
    assembler_.read_direct(*ref.job, ref.visit(), scratch);
    return {ref};
  }
  ChunkLoader::Wake wake;
  try {
    wake = [queue = queue_, ref]() noexcept {
      if (!queue->try_push({ref.job, ref.number + 1})) queue->note_lost();
    };
  } catch (...) {
    if (!chunks_.drop(ref)) return {};
    throw;
  }
  return serve(chunks_.claim(ref, wake));
}

// Returns whether the chunk of a visit was found bad since the batch was planned.
bool Prefetcher::is_known_bad(const VisitRef& ref) const {
  const Visit& visit = ref.visit();
  return settings_.bad != nullptr && !visit.direct &&
         settings_.bad->has_chunk({visit.field, visit.chunk}, ref.job->epoch);
}

// Handles the exception of a visit, which is in flight: it fails the job, or spoils it if it is one of the
// data and the loader goes on without this data.
void Prefetcher::take_error(const VisitRef& ref) {
  const std::exception_ptr error = std::current_exception();
  BatchJob& job = *ref.job;
  BadData* const bad = settings_.bad;
  if (bad == nullptr || !BadData::is_of_data(error)) {
    job.fail(error);
    return;
  }
  try {
    const Visit& visit = ref.visit();
    if (visit.direct) {
      assembler_.find_unreadable(
          job, visit, [&] { return queue_->stopped() || job.cancelled.load(std::memory_order_acquire); },
          [&](std::uint64_t row, const std::exception_ptr& of_row) {
            bad->add_row(visit.field, row, job.epoch, of_row);
          });
    } else {
      bad->add_chunk({visit.field, visit.chunk}, job.epoch, error);
    }
    job.spoiled.store(true, std::memory_order_release);
  } catch (...) {
    job.fail(std::current_exception());
  }
}

// Copies the rows of the claimed visits and returns these. Finish them in a separate statement: until the end
// of the one with this call, the claim and its memory are held, and finishing runs the user's collate_fn.
std::vector<VisitRef> Prefetcher::serve(ChunkLoader::Claim claim) {
  for (const VisitRef& ref : claim.visits) {
    if (ref.job->is_lost()) continue;
    try {
      if (claim.rows) {
        assembler_.copy_rows(*ref.job, ref.visit(), *claim.rows);
      } else {
        assembler_.copy_rows(*ref.job, ref.visit(), claim.chunk->bytes().data());
      }
    } catch (...) {  // from the user's transform: the other visits go on
      ref.job->fail(std::current_exception());
    }
  }
  chunks_.finish(claim);
  return std::move(claim.visits);
}

bool Prefetcher::load_ahead() {
  const std::optional<LookAhead::Place> place = look_ahead_.next();
  if (!place) return false;
  const auto still_ahead = [&] { return look_ahead_.is_ahead(*place); };
  for (std::uint64_t piece = 0; piece < chunks_.pieces(); ++piece) {
    const ChunkKey key{kData, place->chunk * chunks_.pieces() + piece};
    if (settings_.bad != nullptr && settings_.bad->was_found(key)) continue;
    try {
      const std::vector<VisitRef> done = serve(chunks_.load_ahead(place->chunk, piece, still_ahead));
      finish_visits(done);
    } catch (const std::bad_alloc&) {
      // Nothing was claimed: the visit that needs the chunk loads it.
    }
  }
  return true;
}

void Prefetcher::finish_visits(std::span<const VisitRef> done) {
  for (const VisitRef& ref : done) {
    if (ref.job->remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) complete(*ref.job);
  }
}

// Prepares the batch of a spoiled job once more, by a job that takes its place. Returns false if that failed;
// the job then has an error, or the job in its place if there is one.
bool Prefetcher::plan_again(BatchJob& job) {
  std::shared_ptr<BatchJob> again;
  try {
    if (job.attempt == kMostPlans) {
      throw ChunkError(fmt::format(
          "epoch {}, batch {}: its data failed in each of {} attempts; the last fault: {}; check the storage",
          job.epoch, job.batch.number, kMostPlans, settings_.bad->last_fault()));
    }
    again = std::make_shared<BatchJob>(job, job.attempt + 1);
    // Gives the memory of the batch back before the new job asks for some. No visit uses it any more.
    Batch batch = std::exchange(job.batch, {});
    batch = {};
    job.echoes.clear();
    job.staging.clear();
    if (ring_.replace(job, again)) submit(again);
    return true;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    job.fail(error);
    if (!again) return false;
    again->fail(error);
    complete(*again);
    return true;
  }
}

void Prefetcher::complete(BatchJob& job) {
  if (job.spoiled.load(std::memory_order_acquire) && plan_again(job)) return;
  Counters::add(settings_.counters.completed, 1);
  if (!job.failed.load(std::memory_order_acquire)) {
    try {
      const TraceSpan span(settings_.trace.get(), Stage::gather, job.ticket);
      assembler_.finish(job);
      if (settings_.collate_fn) {
        const TimeInto transforming(settings_.counters.transform_ns);
        settings_.collate_fn(job.batch);
        for (Batch& echo : job.echoes) settings_.collate_fn(echo);
      }
    } catch (...) {
      job.fail(std::current_exception());
    }
    if (!job.failed.load(std::memory_order_acquire)) assembler_.hand_to_device(job, settings_.trace.get());
  }
  ring_.complete(job);
}

}  // namespace h5feed
