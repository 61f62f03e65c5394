// SPDX-License-Identifier: Apache-2.0
// Runs jobs on worker threads, or on the caller's thread with the same code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "flow/batches/active_workers.hpp"
#include "flow/batches/batch_assembler.hpp"
#include "flow/batches/task_queue.hpp"
#include "flow/batches/ticket_ring.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_loader.hpp"
#include "flow/chunks/look_ahead.hpp"
#include "flow/faults/bad_data.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/thread_clocks.hpp"
#include "h5feed/trace.hpp"

namespace h5feed {

/// Owns the worker threads and the task queue. A job becomes one plan task, then one task per visit. Plans
/// run first, because loading a chunk serves all visits known by then; then tasks of earlier tickets. If
/// another worker is loading the chunk of a task, the task steps aside and is queued again once the chunk is
/// loaded, so no worker waits for another. No task throws: an error fails its job, also if memory lacks. A
/// visit that cannot be queued is done at once by the worker that planned it, or, if its chunk was awaited,
/// found among those of the ring's jobs. With `Settings::bad`, a job whose data cannot be read is planned
/// again after its last visit, without this data. A plan for which a GPU has no free slot steps aside too;
/// one worker waits for the slot when there is nothing else to do.
class Prefetcher {
 public:
  /// Configuration of the prefetcher. The functions and the trace may be empty.
  struct Settings {
    std::int64_t num_workers = 0;  ///< Workers to start with; 0 runs every task on the caller's thread
    std::function<void(std::int64_t)> worker_init_fn;
    std::function<void(Batch&)> collate_fn;
    std::shared_ptr<TraceSink> trace;
    BadData* bad = nullptr;          ///< Collects data that cannot be read; null: such data fails its batch
    Counters& counters;              ///< Counts the work of the workers
    ThreadClocks* clocks = nullptr;  ///< Clocks that the workers enlist in; null: none
  };

  /// Starts the workers and the read-ahead of `chunks`. All references must outlive the prefetcher. Throws
  /// std::system_error if a thread cannot be started.
  Prefetcher(const BatchAssembler& assembler, ChunkLoader& chunks, TicketRing& ring, LookAhead& look_ahead,
             Settings settings);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Blocks until the running tasks end; drops all others.
  ~Prefetcher();

  /// Queues a job that is in the ring. Does not block. Thread-safe. Throws std::bad_alloc; no task will then
  /// complete the job.
  void submit(std::shared_ptr<BatchJob> job);

  /// Runs the earliest task on the caller's thread, or those that were lost for want of memory; for use
  /// without workers. Blocks while all tasks wait for chunks that another loader of the dataset is loading.
  void run_one();

  /// Makes the workers 0 … `count` − 1 active, at least one, and starts those that did not run yet. The
  /// others end their task and then sleep. If a thread cannot be started, fewer are active. For the
  /// consumer's thread; does not block.
  void set_active(std::int64_t count);

  /// Returns the number of active workers. Thread-safe.
  std::int64_t active() const noexcept { return active_.count(); }

  /// Blocks until `worker_init_fn` has returned on every worker that the prefetcher started with; returns
  /// false if `deadline` passes first. Rethrows the first exception of any worker's at every call: a worker
  /// whose `worker_init_fn` threw runs no tasks.
  bool wait_initialized(const TicketRing::Deadline& deadline) H5FEED_EXCLUDES(init_mutex_);

 private:
  static constexpr std::uint32_t kPlanStep = 0;  // visits are steps 1, 2, …

  struct Task {
    std::shared_ptr<BatchJob> job;
    std::uint32_t step = kPlanStep;
  };
  struct Later {
    bool operator()(const Task& a, const Task& b) const noexcept {
      const bool a_plans = a.step == kPlanStep;
      if (a_plans != (b.step == kPlanStep)) return !a_plans;
      if (a.job->ticket != b.job->ticket) return a.job->ticket > b.job->ticket;
      return a.step > b.step;
    }
  };

  void start_worker();
  void work(std::int64_t worker);
  void run_measured(const Task& task, BatchAssembler::Scratch& scratch);
  bool load_ahead_measured();
  bool initialize(std::int64_t worker) H5FEED_EXCLUDES(init_mutex_);
  void run(const Task& task, BatchAssembler::Scratch& scratch, bool wait);
  void run_plan(const Task& task, BatchAssembler::Scratch& scratch, bool wait);
  void run_lost(BatchAssembler::Scratch& scratch);
  bool run_parked(BatchAssembler::Scratch& scratch, bool wait) H5FEED_EXCLUDES(parked_mutex_);
  void unpark(bool waited) noexcept H5FEED_EXCLUDES(parked_mutex_);
  void run_visit(const VisitRef& ref, BatchAssembler::Scratch& scratch);
  std::vector<VisitRef> visit(const VisitRef& ref, BatchAssembler::Scratch& scratch);
  std::vector<VisitRef> serve(ChunkLoader::Claim claim);
  bool load_ahead();
  void finish_visits(std::span<const VisitRef> done);
  void stop() noexcept;
  void complete(BatchJob& job);
  bool is_known_bad(const VisitRef& ref) const;
  void take_error(const VisitRef& ref);
  bool plan_again(BatchJob& job);

  const BatchAssembler& assembler_;
  ChunkLoader& chunks_;
  TicketRing& ring_;
  LookAhead& look_ahead_;
  const Settings settings_;
  // Shared with whoever wakes a task that waits for a chunk, which may be another loader of the dataset.
  const std::shared_ptr<TaskQueue<Task, Later>> queue_ = std::make_shared<TaskQueue<Task, Later>>();
  BatchAssembler::Scratch caller_scratch_;  // used by run_one()
  Mutex parked_mutex_;
  std::vector<Task> parked_ H5FEED_GUARDED_BY(parked_mutex_);     // plans without a slot
  bool waits_for_slot_ H5FEED_GUARDED_BY(parked_mutex_) = false;  // true while a worker waits
  Mutex init_mutex_;
  CondVar init_done_;
  std::int64_t uninitialized_
      H5FEED_GUARDED_BY(init_mutex_);  // of the first workers, those whose worker_init_fn has not returned
  std::exception_ptr init_error_ H5FEED_GUARDED_BY(init_mutex_);
  ActiveWorkers active_;
  std::vector<std::jthread> workers_;  // of the consumer's thread
};

}  // namespace h5feed
