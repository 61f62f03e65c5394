#include "h5feed/data_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/advice.hpp"
#include "flow/batch_assembler.hpp"
#include "flow/cache_layout.hpp"
#include "flow/counters.hpp"
#include "flow/dataset_fingerprint.hpp"
#include "flow/loader_group.hpp"
#include "flow/look_ahead.hpp"
#include "flow/placement.hpp"
#include "flow/prefetcher.hpp"
#include "flow/preload.hpp"
#include "flow/report.hpp"
#include "flow/resolve_options.hpp"
#include "flow/resolve_order.hpp"
#include "flow/row_future.hpp"
#include "flow/ticket_ring.hpp"
#include "flow/trace_span.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::hours kForever(24 * 365 * 10);

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// Wall time of epochs, readable from any thread while one runs.
class EpochClock {
 public:
  void start() noexcept {
    stop();
    started_ns_.store(now_ns());
  }
  void stop() noexcept {
    const std::int64_t started = started_ns_.exchange(kStopped);
    if (started != kStopped) total_ns_.fetch_add(static_cast<std::uint64_t>(now_ns() - started));
  }
  std::uint64_t total_ns() const noexcept {
    const std::int64_t started = started_ns_.load();
    return total_ns_.load() + (started == kStopped ? 0 : static_cast<std::uint64_t>(now_ns() - started));
  }

 private:
  static constexpr std::int64_t kStopped = -1;
  std::atomic<std::int64_t> started_ns_ = kStopped;
  std::atomic<std::uint64_t> total_ns_ = 0;
};

}  // namespace

struct DataLoader::State {
  State(Dataset handle, const DataLoaderOptions& user);

  void start_epoch();
  std::optional<Batch> next();

  std::unique_ptr<LoaderGroup::Seat> join_group(const DataLoaderOptions& user);
  void preload();
  PlanSpec plan_spec(std::uint64_t start = 0) const;
  RowFuture::Round round_of(std::shared_ptr<const EpochPlan> plan, std::uint64_t of_epoch) const;
  LoaderState state() const;
  void restore(const LoaderState& saved);
  std::uint64_t plan_identity() const;
  SlotBytes slot_bytes() const;
  DataFacts data_facts() const;
  void issue_epoch_as(std::uint64_t in_round);
  bool issue_next_epoch();
  void fill();
  void warm_up();
  std::shared_ptr<BatchJob> wait_for_batch();

  // Order matters: what comes later uses what comes before and is destroyed first.
  const std::shared_ptr<const DatasetState> dataset;
  const std::shared_ptr<const SampleSubset> chosen;
  const std::shared_ptr<const Sampler> sampler;
  const std::shared_ptr<const BatchSampler> batch_sampler;
  const SystemLimits limits;
  const Placement placement;
  const DeliveryFormat format;
  const std::shared_ptr<LoaderGroup> group;
  ResolvedOptions options;  ///< set by `join_group`; then changed by `restore` alone: the seed
  const std::unique_ptr<LoaderGroup::Seat> seat;
  const std::shared_ptr<TraceSink> trace;
  const std::uint64_t batches_per_epoch;
  Counters counters;
  EpochClock epoch_clock;
  const CacheLayout layout;
  const std::unique_ptr<ChunkCache> own_cache;  ///< null: the group's
  ChunkCache& cache;
  RowFuture future;
  const std::unique_ptr<Device> device;
  const BatchAssembler assembler;
  TicketRing ring;
  LookAhead look_ahead;
  Prefetcher prefetcher;
  mutable std::once_flag forecast_made;
  mutable RowForecast forecast;
  mutable std::once_flag identity_made;
  mutable std::uint64_t identity = 0;

  // The consumer's thread only. A round is one run through the data: epochs may repeat, rounds do not.
  bool running = false;                   ///< a round is being delivered
  std::uint64_t round = 0;                ///< the running or last one; rounds count from 1
  std::uint64_t epoch = 0;                ///< its epoch
  std::uint64_t delivered = 0;            ///< batches of it, failed ones included
  std::uint64_t taken = 0;                ///< batches over all rounds
  std::uint64_t next_epoch = 0;           ///< what the next round delivers
  std::uint64_t next_start = 0;           ///< and from which position
  std::shared_ptr<const EpochPlan> plan;  ///< of the running or last round
  std::uint64_t next_ticket = 0;
  std::uint64_t issue_round = 0;  ///< what the next job belongs to
  std::uint64_t issue_epoch = 0;
  std::uint64_t issue_number = 0;
  std::shared_ptr<const EpochPlan> issue_plan;
  bool next_epoch_failed = false;  ///< to be issued ahead: its sampler threw
};

DataLoader::State::State(Dataset handle, const DataLoaderOptions& user)
    : dataset(handle.state()),
      chosen(handle.chosen()),
      sampler(user.sampler),
      batch_sampler(user.batch_sampler),
      limits(system_limits()),
      placement(resolve_placement(user, *dataset)),
      format(assembly_format(placement, *dataset)),
      group(LoaderGroup::of(*dataset)),
      seat(join_group(user)),
      trace(user.trace),
      batches_per_epoch(EpochPlan(plan_spec(), 0).num_batches()),
      layout(cache_layout(*dataset, options)),
      own_cache(options.cache_policy == CachePolicy::lru
                    ? nullptr
                    : std::make_unique<ChunkCache>(layout.chunk_bytes, layout.staying_bytes)),
      cache(own_cache ? *own_cache : group->cache()),
      future(static_cast<std::uint64_t>(options.batch_size)),
      device(make_device(placement, user, *dataset, format, options, slot_bytes())),
      assembler({*dataset, options, format, cache, future, *device, counters}, placement.on_host.normalize),
      look_ahead(look_ahead_room(*dataset, options)),
      prefetcher(assembler, ring, look_ahead,
                 {options.num_workers, options.io_depth, user.worker_init_fn, user.trace}) {
  if (user.preload) preload();
  const std::string advice = shuffle_advice(*dataset, options);
  if (!advice.empty()) log(LogLevel::warning, advice);
  if (options.world_size > 1) {
    log(LogLevel::info, fmt::format("rank {} of {}: seed {}, plan {:016x}, {} batches an epoch", options.rank,
                                    options.world_size, options.seed, plan_identity(), batches_per_epoch));
  }
}

std::unique_ptr<LoaderGroup::Seat> DataLoader::State::join_group(const DataLoaderOptions& user) {
  return group->join([&](const MemoryUse& others) {
    const Resolution resolution = resolve_options(user, *dataset, chosen.get(), format, limits, others);
    options = resolution.options;
    return resolution.memory;
  });
}

void DataLoader::State::preload() {
  const std::uint64_t needed = cached_data_bytes(*dataset, options);
  if (options.row_reads || needed > options.cache_bytes) {
    log(LogLevel::warning,
        fmt::format("preload: the decoded data does not fit cache_bytes {}; it would from {}",
                    format_bytes(options.cache_bytes), format_bytes_ceil(needed)));
    return;
  }
  const auto threads = options.num_workers > 0 ? static_cast<unsigned>(options.num_workers) : limits.cpus;
  preload_chunks(*dataset, chosen.get(), cache, counters, threads);
}

PlanSpec DataLoader::State::plan_spec(std::uint64_t start) const {
  PlanSpec spec = make_plan_spec({sampler, batch_sampler, chosen}, *dataset, options);
  spec.start = start;
  return spec;
}

SlotBytes DataLoader::State::slot_bytes() const {
  return {options.max_batch_rows * format.data_row_bytes, options.max_batch_rows * format.target_row_bytes};
}

DataFacts DataLoader::State::data_facts() const {
  DataFacts facts;
  facts.samples = options.samples_per_epoch;
  facts.chunks = options.chunks_per_epoch * dataset->data.map.pieces();
  facts.fit_bytes = cached_data_bytes(*dataset, options);
  for (const Field* field : {&dataset->data, dataset->target ? &*dataset->target : nullptr}) {
    if (field != nullptr && !field->is_resident()) facts.stored_bytes += field->info().stored_bytes;
  }
  std::call_once(forecast_made, [this] { forecast = forecast_rows(*dataset, options); });
  facts.optimum = forecast;
  return facts;
}

void DataLoader::State::start_epoch() {
  const auto front = ring.front();
  const bool prefetched = !running && front && front->round == round + 1 &&
                          front->batch.epoch == next_epoch && front->plan->start() == next_start &&
                          front->number == 0;
  next_epoch_failed = false;
  ++round;
  if (!prefetched) {
    ring.cancel_all();
    issue_epoch_as(round);
  }
  plan = prefetched ? front->plan : issue_plan;
  epoch = next_epoch++;
  next_start = 0;
  delivered = 0;
  running = true;
  epoch_clock.start();
  fill();
}

RowFuture::Round DataLoader::State::round_of(std::shared_ptr<const EpochPlan> of_plan,
                                             std::uint64_t of_epoch) const {
  const std::uint64_t start = of_plan->start();
  return {std::move(of_plan), options.seed, of_epoch, start};
}

void DataLoader::State::issue_epoch_as(std::uint64_t in_round) {
  issue_plan = std::make_shared<const EpochPlan>(plan_spec(next_start), next_epoch);
  issue_epoch = next_epoch;
  issue_number = 0;
  issue_round = in_round;
  if (options.cache_policy == CachePolicy::clairvoyant) {
    const std::uint64_t after = issue_epoch + 1;
    future.issue(round_of(issue_plan, issue_epoch),
                 round_of(std::make_shared<const EpochPlan>(plan_spec(), after), after));
  }
}

// Keeps the ring full. With workers the next epoch follows the running one without a gap; `set_epoch`
// may still name another one, then what was prepared is dropped when that one starts.
void DataLoader::State::fill() {
  while (ring.size() < options.prefetch_batches) {
    if (issue_number == issue_plan->num_batches()) {
      const bool ahead_already = issue_round > round;
      if (options.num_workers == 0 || ahead_already || !issue_next_epoch()) return;
      continue;
    }
    look_ahead.advance(issue_plan, issue_number);
    auto job =
        std::make_shared<BatchJob>(next_ticket++, issue_round, issue_plan, issue_epoch, issue_number++);
    job->first_turn = future.first_turn(job->number);
    ring.push(job);
    assembler.forget_before(ring.front()->first_turn);
    prefetcher.submit(std::move(job));
  }
}

// A sampler may fail; that is for the call that starts the epoch, which asks it again.
bool DataLoader::State::issue_next_epoch() {
  if (next_epoch_failed) return false;
  try {
    issue_epoch_as(round + 1);
    return true;
  } catch (...) {
    next_epoch_failed = true;
    return false;
  }
}

void DataLoader::State::warm_up() {
  if (running || options.num_workers == 0 || ring.front() || !issue_next_epoch()) return;
  fill();
}

std::uint64_t DataLoader::State::plan_identity() const {
  std::call_once(identity_made, [this] {
    identity = mix_key(dataset_fingerprint(*dataset), kPlanHash, plan_hash(plan_spec()));
  });
  return identity;
}

LoaderState DataLoader::State::state() const {
  if (!options.in_order) {
    throw OptionError("a state needs in_order = true: otherwise a position does not say which samples came");
  }
  LoaderState saved{options.seed, next_epoch, next_start, plan_identity(), options.world_size};
  if (running && delivered < plan->num_batches()) {
    saved.epoch = epoch;
    saved.position = plan->position_before(delivered);
  }
  return saved;
}

void DataLoader::State::restore(const LoaderState& saved) {
  if (!options.in_order) throw OptionError("restore() needs in_order = true");
  if (saved.plan != plan_identity()) {
    throw StateError(fmt::format(
        "the saved state is of another dataset, order or sharding (plan {:016x}, this loader's is "
        "{:016x}); open the same data with the same shuffle, sampler, subset, shard and uneven",
        saved.plan, plan_identity()));
  }
  PlanSpec spec = plan_spec();
  if (saved.position > 0 && !positions_are_global(spec) && saved.world_size != options.world_size) {
    throw StateError(fmt::format(
        "the saved state is in mid-epoch of world_size {}, this loader has world_size {}; that works "
        "with shard = strided and uneven = exact, or from an epoch's begin",
        saved.world_size, options.world_size));
  }
  spec.seed = saved.seed;
  const std::uint64_t positions = EpochPlan(spec, saved.epoch).num_positions();
  if (saved.position > positions || (!positions_are_global(spec) && saved.position % spec.world_size != 0)) {
    throw StateError(
        fmt::format("the saved state is at position {} of an epoch that has {}", saved.position, positions));
  }
  ring.cancel_all();
  running = false;
  epoch_clock.stop();
  options.seed = saved.seed;
  next_epoch = saved.epoch;
  next_start = saved.position;
  issue_plan.reset();
}

std::shared_ptr<BatchJob> DataLoader::State::wait_for_batch() {
  if (options.num_workers == 0) {
    while (true) {
      if (auto job = ring.try_take(round, options.in_order)) return job;
      prefetcher.run_one();
    }
  }
  TicketRing::Deadline deadline;
  // Clock::now() plus the largest duration would overflow into the past.
  if (options.timeout && *options.timeout < kForever) deadline = Clock::now() + *options.timeout;
  std::shared_ptr<BatchJob> job;
  if (prefetcher.wait_initialized(deadline)) job = ring.take(round, options.in_order, deadline);
  if (!job) {
    throw TimeoutError(
        fmt::format("no batch within the timeout of {} ms (epoch {}, batch {}); call next() again to go "
                    "on waiting, or raise timeout or num_workers",
                    options.timeout->count(), epoch, delivered));
  }
  return job;
}

std::optional<Batch> DataLoader::State::next() {
  if (!running) start_epoch();
  if (delivered == plan->num_batches()) {
    running = false;
    epoch_clock.stop();
    return std::nullopt;
  }

  std::shared_ptr<BatchJob> job;
  {
    const TimeInto waited(counters.wait_ns);
    const TraceSpan span(trace.get(), Stage::wait, taken);
    if (options.num_workers == 0) fill();
    job = wait_for_batch();
  }
  ++delivered;
  ++taken;
  if (options.num_workers > 0) fill();
  Batch batch;
  try {
    if (const std::exception_ptr error = job->take_error()) std::rethrow_exception(error);
    batch = device->deliver(job->ticket, std::move(job->batch));
  } catch (...) {
    Counters::add(counters.errors, 1);
    throw;
  }
  const auto samples = static_cast<std::uint64_t>(batch.size());
  const std::uint64_t target_bytes = dataset->target ? dataset->target->info().row_bytes() : 0;
  Counters::add(counters.batches, 1);
  Counters::add(counters.samples, samples);
  Counters::add(counters.bytes_delivered, samples * (dataset->data.info().row_bytes() + target_bytes));
  return batch;
}

DataLoader::DataLoader(Dataset dataset, DataLoaderOptions options)
    : state_(std::make_unique<State>(std::move(dataset), options)) {}

DataLoader::~DataLoader() = default;

std::size_t DataLoader::size() const noexcept { return static_cast<std::size_t>(state_->batches_per_epoch); }

void DataLoader::set_epoch(std::uint64_t epoch) {
  state_->next_epoch = epoch;
  state_->next_start = 0;
}

void DataLoader::warm_up() { state_->warm_up(); }

LoaderState DataLoader::state() const { return state_->state(); }

void DataLoader::restore(const LoaderState& state) { state_->restore(state); }

void DataLoader::start_epoch() { state_->start_epoch(); }

std::optional<Batch> DataLoader::next() { return state_->next(); }

const ResolvedOptions& DataLoader::options() const noexcept { return state_->options; }

PlanReport plan(const Dataset& dataset, const DataLoaderOptions& options) {
  const DatasetState& state = *dataset.state();
  const DeliveryFormat format = assembly_format(resolve_placement(options, state), state);
  ResolvedOptions resolved;
  LoaderGroup::of(state)->join([&](const MemoryUse& others) {
    const Resolution resolution =
        resolve_options(options, state, dataset.chosen().get(), format, system_limits(), others);
    resolved = resolution.options;
    return MemoryUse{};
  });
  const PlanSpec spec =
      make_plan_spec({options.sampler, options.batch_sampler, dataset.chosen()}, state, resolved);
  return foretell(state, resolved, EpochPlan(spec, 0).num_batches());
}

PlanReport DataLoader::plan() const {
  return foretell(*state_->dataset, state_->options, state_->batches_per_epoch);
}

LoaderStats DataLoader::stats() const {
  const Counters& counters = state_->counters;
  LoaderStats stats;
  stats.batches = counters.batches;
  stats.samples = counters.samples;
  stats.bytes_delivered = counters.bytes_delivered;
  stats.errors = counters.errors;
  stats.cache_hits = counters.cache_hits;
  stats.cache_misses = counters.cache_misses;
  stats.chunk_loads = counters.chunk_loads;
  stats.read_calls = counters.read_calls;
  stats.bytes_read = counters.bytes_read;
  stats.bytes_decoded = counters.bytes_decoded;
  stats.rows_direct = counters.rows_direct;
  stats.fallback_chunks = counters.fallback_chunks;
  stats.read_ns = counters.read_ns;
  stats.decode_ns = counters.decode_ns;
  stats.gather_ns = counters.gather_ns;
  stats.wait_ns = counters.wait_ns;
  stats.epoch_ns = state_->epoch_clock.total_ns();
  stats.cache_bytes = state_->cache.stats().held_bytes + state_->assembler.row_bytes_held();
  stats.outputs_held_bytes = state_->device->lent_bytes();
  stats.outputs_allocated = state_->device->allocations();
  return stats;
}

std::string DataLoader::report() const {
  return format_report(stats(), state_->options, state_->limits, state_->data_facts());
}

struct DataLoader::Iterator::Cursor {
  explicit Cursor(DataLoader& of) : loader(of) {}

  DataLoader& loader;
  bool fetched = false;
  std::optional<Batch> batch;

  // Fetches on first use, so that `begin()` does not wait.
  bool at_end() {
    if (!fetched) {
      batch = loader.next();
      fetched = true;
    }
    return !batch.has_value();
  }
};

DataLoader::Iterator DataLoader::begin() {
  start_epoch();
  return Iterator(std::make_shared<Iterator::Cursor>(*this));
}

Batch& DataLoader::Iterator::operator*() const {
  if (!cursor_ || cursor_->at_end()) {
    throw std::out_of_range("h5feed: attempted to dereference a data loader iterator past the end");
  }
  return *cursor_->batch;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
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
