// SPDX-License-Identifier: Apache-2.0
// What a DataLoader is made of: epochs issued as jobs, prepared by the workers, delivered in order.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "base/system_limits.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/batch_assembler.hpp"
#include "flow/batches/prefetcher.hpp"
#include "flow/batches/ticket_ring.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/look_ahead.hpp"
#include "flow/chunks/row_future.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/epoch_clock.hpp"
#include "flow/measure/gpu_window.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/loader_group.hpp"
#include "flow/resolve/placement.hpp"
#include "flow/resolve/report.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "flow/stretch.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

struct DataLoader::State {
  State(Dataset handle, const DataLoaderOptions& user);

  void start_epoch();
  void set_epoch(std::uint64_t number);
  OptionalBatch<Batch> next(const ProvideOutput& provide);
  std::shared_ptr<BatchJob> take_job();
  Batch first_delivery(BatchJob& job, const ProvideOutput& provide);
  Batch next_echo(const ProvideOutput& provide);
  bool echo_pending() const noexcept;

  std::unique_ptr<LoaderGroup::Membership> join_group(const DataLoaderOptions& user);
  void preload();
  void warn_of_empty_epochs() const;
  Stretch whole_epoch() const noexcept;
  PlanSpec plan_spec() const;
  std::shared_ptr<const EpochPlan> plan_of(const Stretch& part, std::uint64_t of_epoch) const;
  RowFuture::Round round_of(std::shared_ptr<const EpochPlan> plan, std::uint64_t of_epoch) const;
  LoaderState state() const;
  void restore(const LoaderState& saved);
  std::deque<Stretch> stretches_after(const EpochPlace& place, const PlanSpec& spec,
                                      std::uint64_t of_epoch) const;
  void check_identity(const LoaderState& saved) const;
  std::uint64_t plan_identity() const;
  std::uint64_t identity_with(std::uint64_t factor) const;
  std::uint64_t echo_factor() const noexcept { return static_cast<std::uint64_t>(options.echo_factor); }
  SlotBytes slot_bytes() const;
  DataFacts data_facts() const;
  void start_round(const Stretch& part, std::uint64_t of_epoch, bool may_be_prefetched);
  void issue(const Stretch& part, std::uint64_t of_epoch, std::uint64_t in_round);
  bool issue_next_round();
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
  const std::shared_ptr<LoaderGroup> group;
  ResolvedOptions options;  ///< completed by `join_group`; then changed by `restore` alone: the seed
  const DeliveryFormat format;
  const std::unique_ptr<LoaderGroup::Membership> membership;
  const bool budget_given;  ///< `memory_budget_bytes` was set by the user
  const std::shared_ptr<TraceSink> trace;
  const std::uint64_t batches_per_epoch;
  Counters counters;
  EpochClock epoch_clock;
  GpuWindow gpu_window;
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
  mutable std::optional<RowForecast> forecast;
  mutable std::once_flag identity_made;
  mutable std::uint64_t identity = 0;  ///< without an echo

  // The consumer's thread only. A round is one run through a stretch of an epoch, as a rule through all of
  // it: epochs may repeat, rounds do not.
  bool running = false;                   ///< a round is being delivered
  std::uint64_t round = 0;                ///< the running or last one; rounds count from 1
  std::uint64_t epoch = 0;                ///< its epoch
  std::uint64_t delivered = 0;            ///< batches of it, failed ones included
  std::uint64_t taken = 0;                ///< batches over all rounds
  std::uint64_t repeats = 0;              ///< deliveries of the present batch; 0 without one to repeat
  std::uint64_t first_repeat = 0;         ///< of them, those before a run was resumed
  std::vector<Batch> echoes;              ///< the rest of them, the last first, where the CPU has made them
  Batch echo_like;                        ///< the present batch without memory, where a GPU makes them
  Stretch stretch;                        ///< of the running or last round
  std::shared_ptr<const EpochPlan> plan;  ///< likewise
  std::deque<Stretch> rest;               ///< of the running epoch, after that
  std::uint64_t next_epoch = 0;           ///< what is delivered after the running epoch
  std::deque<Stretch> next_stretches;     ///< and in which parts; at least one
  std::uint64_t next_ticket = 0;
  std::uint64_t issue_round = 0;  ///< what the next job belongs to
  std::uint64_t issue_epoch = 0;
  std::uint64_t issue_number = 0;
  Stretch issue_stretch;
  std::shared_ptr<const EpochPlan> issue_plan;
  bool next_epoch_failed = false;  ///< to be issued ahead: its sampler threw
};

}  // namespace h5feed
