// SPDX-License-Identifier: Apache-2.0
// Private state of a DataLoader. Issues epochs as jobs, which workers prepare and `next()` delivers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "base/system_limits.hpp"
#include "batch/device.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/batch_assembler.hpp"
#include "flow/batches/prefetcher.hpp"
#include "flow/batches/ticket_ring.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_loader.hpp"
#include "flow/chunks/look_ahead.hpp"
#include "flow/chunks/row_future.hpp"
#include "flow/epoch_state.hpp"
#include "flow/faults/faults.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/epoch_clock.hpp"
#include "flow/measure/gpu_window.hpp"
#include "flow/measure/thread_clocks.hpp"
#include "flow/measure/wait_ledger.hpp"
#include "flow/report.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/resolve.hpp"
#include "flow/stretch.hpp"
#include "flow/tuning/self_tuning.hpp"
#include "flow/verdict/epoch_log.hpp"
#include "flow/verdict/stats_file.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Implementation of `DataLoader`. `slot_bytes()` and `data_facts()` are thread-safe; the other functions are
/// for one thread at a time.
struct H5FEED_NO_EXPORT DataLoader::State {
  /// Resolves the options and starts the workers. Throws OptionError or DatasetError.
  State(Dataset handle, const DataLoaderOptions& user);

  /// Starts the epoch `upcoming` and abandons a running one. Rethrows what a sampler throws.
  void start_epoch();
  /// Makes `number` the epoch delivered next, from its start.
  void set_epoch(std::uint64_t number);
  /// Returns the next batch or repeat; nullopt at the end of an epoch. Blocks until it is ready. A GPU batch
  /// is written to the memory of `provide`, or to the loader's own if it is empty.
  OptionalBatch<Batch> next(const ProvideOutput& provide);
  /// Waits until `next` does not block, for at most about `limit`; returns whether it does not.
  bool wait_ready(std::chrono::milliseconds limit);
  /// Starts an epoch if none is running, and enters its next round if the running one is delivered. Returns
  /// false at the end of the epoch.
  bool reach_batch();
  /// Waits for the next job of the round, counts the waiting time and submits further jobs.
  std::shared_ptr<BatchJob> take_job();
  /// Delivers the batch of `job` and keeps what its repeats need. Rethrows the error of the job.
  Batch first_delivery(BatchJob& job, const ProvideOutput& provide);
  /// Counts a batch with `bad_samples` left out or replaced, which is about to be delivered. Throws
  /// ChunkError if those of the epoch exceed the quota.
  void count_bad_samples(const BatchJob& job);
  /// Delivers the first batch once more, for `headroom`.
  Batch replay(const ProvideOutput& provide);
  /// Delivers the next repeat of the current batch.
  Batch next_echo(const ProvideOutput& provide);

  /// Decodes all data into the cache; logs a warning and does nothing if it cannot be cached. Blocks.
  void preload();
  void warn_of_empty_epochs() const;
  /// Returns the stretch that covers a whole epoch with all repeats.
  Stretch whole_epoch() const noexcept;
  PlanSpec plan_spec() const;
  /// Returns the plan of `part` of epoch `of_epoch`.
  std::shared_ptr<const EpochPlan> plan_of(const Stretch& part, std::uint64_t of_epoch) const;
  RowFuture::Round round_of(std::shared_ptr<const EpochPlan> plan, std::uint64_t of_epoch) const;
  /// Returns the progress of the run. Throws OptionError with `in_order = false`.
  LoaderState state() const;
  /// Resumes at `saved`. Throws StateError if it does not match, OptionError with `in_order = false`; the
  /// state then is unchanged.
  void restore(const LoaderState& saved);
  /// Returns the stretches of epoch `of_epoch` that remain from `place` on; at least one. Throws StateError
  /// if they would leave out samples of an unfinished echo.
  std::deque<Stretch> stretches_after(const EpochPlace& place, const PlanSpec& spec,
                                      std::uint64_t of_epoch) const;
  /// Throws StateError if `saved` belongs to another dataset, order, sharding or echo factor.
  void check_identity(const LoaderState& saved) const;
  /// Returns the hash of dataset, order and this loader's echo factor.
  std::uint64_t plan_identity() const;
  /// Returns the hash of dataset, order and echo factor `factor`.
  std::uint64_t identity_with(std::int64_t factor) const;
  /// Returns the function that knows which samples stay on the GPU; empty if none can.
  RowKeeper::OnDevice on_device() const;
  /// Returns the function that tells the GPU which samples come again; empty if none can stay there.
  Foresee foresee();
  /// Returns the bytes of data and target of the largest batch.
  SlotBytes slot_bytes() const;
  /// Returns the facts that a verdict needs. Thread-safe.
  VerdictFacts verdict_facts() const;
  /// Returns the counters and the time of epochs. Thread-safe.
  LoaderStats counted() const;
  /// Returns the facts that `report()` needs. The first call may simulate an epoch.
  DataFacts data_facts() const;
  /// Returns the number of the next loader of the process, from 0 on.
  static std::uint64_t next_number() noexcept;
  /// Publishes the progress of the running or last epoch (`StatsFile`).
  void publish();
  /// Logs once that the files are on a network file system, if the consumer waits for reads from it.
  void advise_storage();
  /// Makes `part` of `of_epoch` the running round. Keeps jobs already issued for it if `may_be_prefetched`,
  /// else cancels all jobs.
  void start_round(const Stretch& part, std::uint64_t of_epoch, bool may_be_prefetched);
  /// Makes `part` of `of_epoch` the source of the next jobs, which belong to round `in_round`.
  void issue(const Stretch& part, std::uint64_t of_epoch, std::uint64_t in_round);
  /// Issues the round after the running one. Returns false if that failed, e.g. because a sampler threw.
  bool issue_next_round();
  /// Submits jobs until as many are in flight as are to be prefetched, or no round can be issued ahead.
  /// Throws std::bad_alloc; the next call goes on with the same job.
  void issue_jobs();
  /// Submits jobs before a wait for one of the running round, if none may be there: without workers, or if
  /// memory lacked when they were due.
  void ensure_issued();
  /// Submits the jobs that follow a batch that was taken, after self-tuning has heard of it; leaves that to
  /// `ensure_issued` if memory lacks.
  void steer(const BatchJob& taken);
  /// Returns what self-tuning may choose.
  WorkerController::Bounds tuning_bounds(const DataLoaderOptions& user) const;
  /// Returns the workers, batches and reads in use: chosen by self-tuning, or as resolved. Thread-safe.
  SelfTuning::Choice in_use() const;
  /// Tells self-tuning of a batch that was taken, and does what it has chosen; nothing without.
  void tune(const BatchJob& taken);
  /// Issues jobs of the next epoch. Does nothing while an epoch runs, or without workers.
  void warm_up();
  /// Returns when the `timeout` of the wait for the current batch ends; unset without a timeout. The first
  /// call for a batch begins the wait.
  TicketRing::Deadline wait_deadline();
  /// Blocks until a job of the running round is ready; without workers, runs jobs on this thread. Throws
  /// TimeoutError.
  std::shared_ptr<BatchJob> wait_for_batch();
  /// Blocks until `worker_init_fn` has run on the workers of the start. Rethrows what it threw on any worker;
  /// throws TimeoutError.
  void wait_for_workers();
  /// Throws TimeoutError for the current batch. Needs a `timeout`.
  [[noreturn]] void throw_timeout() const;

  // Order matters: members use those declared before them, and are destroyed first.
  const std::shared_ptr<const DatasetState> dataset;
  const std::shared_ptr<const SampleSubset> chosen;
  const std::shared_ptr<const Sampler> sampler;
  const std::shared_ptr<const BatchSampler> batch_sampler;
  const SystemLimits limits;
  Resolved resolved;                                ///< constant, except that `restore` changes the seed
  const bool keeps_on_gpu;                          ///< samples stay on the GPU (`gpu_cache_bytes`)
  const std::optional<std::uint64_t> given_budget;  ///< `memory_budget_bytes` as set by the user
  const bool headroom;                              ///< One batch is repeated for ever
  const std::uint64_t loader_number;                ///< Number among the loaders of this process
  const std::shared_ptr<TraceSink> trace;
  const std::uint64_t batches_per_epoch;
  Counters counters;
  ThreadClocks thread_clocks;
  std::optional<SelfTuning> tuning;  ///< Unset unless `num_workers = kAuto`
  WaitLedger ledger;
  EpochClock epoch_clock;
  GpuWindow gpu_window;
  EpochLog epoch_log;
  StatsFile stats_file;  ///< Used by the consumer's thread only
  const CacheLayout layout;
  const std::unique_ptr<ChunkCache> own_cache;  ///< null: the cache of the group is used
  ChunkCache& cache;
  const std::unique_ptr<Device> device;
  const std::unique_ptr<Faults> faults;  ///< null if data that cannot be read fails its batch
  BatchAssembler assembler;
  ChunkLoader chunks;
  TicketRing ring;
  LookAhead look_ahead;
  Prefetcher prefetcher;
  bool storage_advised = false;  ///< the warning about slow storage was logged
  mutable std::once_flag forecast_made;
  mutable std::optional<RowForecast> forecast;
  mutable std::once_flag identity_made;
  mutable std::uint64_t identity = 0;  ///< hash of dataset and order, excluding echo.factor

  // The remaining members are used by the consumer's thread only.
  Delivering delivering;
  Issuing issuing;
  Upcoming upcoming;
  OptionalBatch<Batch> replayed;  ///< Batch that is repeated for `headroom`; unset until it was delivered
  std::uint64_t replays = 0;      ///< How often it was
  TicketRing::Deadline waiting_since;  ///< when the wait for the current batch began; unset: not yet
};

}  // namespace h5feed
