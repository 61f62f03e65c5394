#include "h5feed/data_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "base/system_limits.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/advice.hpp"
#include "flow/batch_assembler.hpp"
#include "flow/counters.hpp"
#include "flow/look_ahead.hpp"
#include "flow/placement.hpp"
#include "flow/prefetcher.hpp"
#include "flow/report.hpp"
#include "flow/resolve_options.hpp"
#include "flow/ticket_ring.hpp"
#include "flow/trace_span.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

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

  PlanSpec plan_spec() const;
  SlotBytes slot_bytes() const;
  void issue_epoch_as(std::uint64_t in_round);
  void fill();
  std::shared_ptr<BatchJob> wait_for_batch();

  // Order matters: what comes later uses what comes before and is destroyed first.
  const std::shared_ptr<const DatasetState> dataset;
  const SystemLimits limits;
  const Placement placement;
  const DeliveryFormat format;
  const ResolvedOptions options;
  const std::shared_ptr<TraceSink> trace;
  const std::uint64_t batches_per_epoch;
  Counters counters;
  EpochClock epoch_clock;
  ChunkCache cache;
  const std::unique_ptr<Device> device;
  const BatchAssembler assembler;
  TicketRing ring;
  LookAhead look_ahead;
  Prefetcher prefetcher;

  // The consumer's thread only. A round is one run through the data: epochs may repeat, rounds do not.
  bool running = false;          ///< a round is being delivered
  std::uint64_t round = 0;       ///< the running or last one; rounds count from 1
  std::uint64_t epoch = 0;       ///< its epoch
  std::uint64_t delivered = 0;   ///< batches of it, failed ones included
  std::uint64_t taken = 0;       ///< batches over all rounds
  std::uint64_t next_epoch = 0;  ///< what the next round delivers
  std::uint64_t next_ticket = 0;
  std::uint64_t issue_round = 0;  ///< what the next job belongs to
  std::uint64_t issue_epoch = 0;
  std::uint64_t issue_number = 0;
  std::shared_ptr<const EpochPlan> issue_plan;
};

DataLoader::State::State(Dataset handle, const DataLoaderOptions& user)
    : dataset(handle.state()),
      limits(system_limits()),
      placement(resolve_placement(user, *dataset)),
      format(assembly_format(placement, *dataset)),
      options(resolve_options(placement.on_host, *dataset, format, limits)),
      trace(user.trace),
      batches_per_epoch(EpochPlan(plan_spec(), 0).num_batches()),
      cache(options.cache_bytes),
      device(make_device(placement, user, *dataset, format, options, slot_bytes())),
      assembler({*dataset, options, format, cache, *device, counters}, placement.on_host.normalize),
      look_ahead(look_ahead_room(*dataset, options)),
      prefetcher(assembler, ring, look_ahead,
                 {options.num_workers, options.io_depth, user.worker_init_fn, user.trace}) {
  const std::string advice = shuffle_advice(*dataset, options);
  if (!advice.empty()) log(LogLevel::warning, advice);
}

PlanSpec DataLoader::State::plan_spec() const {
  PlanSpec spec;
  spec.num_samples = dataset->data.info().rows();
  spec.rows_per_chunk = dataset->data.map.rows_per_chunk();
  spec.shuffle = options.shuffle;
  spec.seed = options.seed;
  spec.batch_size = static_cast<std::uint64_t>(options.batch_size);
  spec.drop_last = options.drop_last;
  return spec;
}

SlotBytes DataLoader::State::slot_bytes() const {
  const auto rows = std::min(static_cast<std::uint64_t>(options.batch_size), dataset->data.info().rows());
  return {rows * format.data_row_bytes, rows * format.target_row_bytes};
}

void DataLoader::State::start_epoch() {
  const auto front = ring.front();
  const bool prefetched = !running && front && front->round == round + 1 &&
                          front->batch.epoch == next_epoch && front->batch.number == 0;
  ++round;
  if (!prefetched) {
    ring.cancel_all();
    issue_epoch_as(round);
  }
  epoch = next_epoch++;
  delivered = 0;
  running = true;
  epoch_clock.start();
  fill();
}

void DataLoader::State::issue_epoch_as(std::uint64_t in_round) {
  issue_plan = std::make_shared<const EpochPlan>(plan_spec(), next_epoch);
  issue_epoch = next_epoch;
  issue_number = 0;
  issue_round = in_round;
}

// Keeps the ring full. With workers the next epoch follows the running one without a gap; `set_epoch`
// may still name another one, then what was prepared is dropped when that one starts.
void DataLoader::State::fill() {
  while (ring.size() < options.prefetch_batches && batches_per_epoch > 0) {
    if (issue_number == batches_per_epoch) {
      const bool ahead_already = issue_round > round;
      if (options.num_workers == 0 || ahead_already) return;
      issue_epoch_as(round + 1);
    }
    look_ahead.advance(issue_plan, issue_plan->end_of_batch(issue_number));
    auto job =
        std::make_shared<BatchJob>(next_ticket++, issue_round, issue_plan, issue_epoch, issue_number++);
    ring.push(job);
    prefetcher.submit(std::move(job));
  }
}

std::shared_ptr<BatchJob> DataLoader::State::wait_for_batch() {
  if (options.num_workers == 0) {
    while (true) {
      if (auto job = ring.try_take(round, options.in_order)) return job;
      if (!prefetcher.run_one()) throw std::logic_error("h5feed: a batch was issued but nothing works on it");
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
  if (delivered == batches_per_epoch) {
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

void DataLoader::set_epoch(std::uint64_t epoch) { state_->next_epoch = epoch; }

void DataLoader::start_epoch() { state_->start_epoch(); }

std::optional<Batch> DataLoader::next() { return state_->next(); }

const ResolvedOptions& DataLoader::options() const noexcept { return state_->options; }

LoaderStats DataLoader::stats() const {
  const Counters& counters = state_->counters;
  const ChunkCache::Stats cache = state_->cache.stats();
  LoaderStats stats;
  stats.batches = counters.batches;
  stats.samples = counters.samples;
  stats.bytes_delivered = counters.bytes_delivered;
  stats.errors = counters.errors;
  stats.cache_hits = cache.hits;
  stats.cache_misses = cache.misses;
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
  stats.cache_bytes = cache.held_bytes;
  stats.outputs_held_bytes = state_->device->lent_bytes();
  stats.outputs_allocated = state_->device->allocations();
  return stats;
}

std::string DataLoader::report() const { return format_report(stats(), state_->options, state_->limits); }

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
