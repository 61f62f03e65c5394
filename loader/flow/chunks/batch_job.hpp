// SPDX-License-Identifier: Apache-2.0
// One batch on its way from plan to consumer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/device.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Row `row` of a field goes to place `position` of the batch.
struct RowAt {
  std::uint64_t row = 0;
  std::uint32_t position = 0;
};

/// The part of a batch that comes from one chunk (or, read directly, from a run of rows).
struct Visit {
  std::uint32_t field = kData;
  std::uint32_t piece = 0;  ///< of every sample, where samples span several chunks
  std::uint64_t chunk = 0;
  std::uint32_t first_row = 0;  ///< into BatchJob::rows[field]
  std::uint32_t num_rows = 0;
  bool direct = false;  ///< straight from the file, past the cache
};

/// Filled by its plan task, worked on by the tasks of its visits in any order and at once, and handed
/// to the consumer when the last of them is done. Shared by its tasks and the ring, so that it can be
/// abandoned at any moment.
struct BatchJob : std::enable_shared_from_this<BatchJob> {
  BatchJob(std::uint64_t job_ticket, std::uint64_t job_round, std::shared_ptr<const EpochPlan> epoch_plan,
           std::uint64_t epoch, std::uint64_t number_in_plan)
      : ticket(job_ticket), round(job_round), plan(std::move(epoch_plan)), number(number_in_plan) {
    batch.epoch = epoch;
    batch.number = plan->first_number() + number;
  }

  const std::uint64_t ticket;  ///< position in the loader's life, over all epochs
  const std::uint64_t round;   ///< which run through the data it belongs to; the same epoch may run twice
  const std::shared_ptr<const EpochPlan> plan;
  const std::uint64_t number;  ///< of the batch in `plan`, which may begin within the epoch
  std::uint64_t first_turn =
      0;                   ///< of its first sample (flow/chunks/row_future.hpp); set before it is submitted
  std::uint64_t seed = 0;  ///< of the loader when it was issued; likewise
  std::uint64_t first_repeat = 0;  ///< deliveries of it before a run was resumed; likewise
  std::uint64_t end_repeat = 1;    ///< deliveries of it in all, those before included; likewise

  // Written by the plan task; read-only afterwards, except for the bytes that `batch` points to, of
  // which every visit writes its own rows.
  Batch batch;
  std::vector<Batch> echoes;             ///< the same samples once more each, in memory of their own
  std::vector<std::vector<RowAt>> rows;  ///< of each field, in file order; of tiles, visit by visit
  std::vector<std::shared_ptr<std::byte>> staging;  ///< of each field: stored rows, where samples span chunks
  std::vector<Visit> visits;

  std::atomic<std::size_t> remaining = 0;  ///< visits not done yet
  std::atomic<bool> cancelled = false;     ///< nobody will take it: tasks drop it
  std::atomic<bool> failed = false;        ///< `error` is set: tasks skip their work

  /// Keeps the first exception.
  void fail(std::exception_ptr exception) H5FEED_EXCLUDES(error_mutex_) {
    const MutexLock lock(error_mutex_);
    if (!error_) error_ = std::move(exception);
    failed.store(true, std::memory_order_release);
  }

  /// The exception leaves the job: the consumer alone holds it while it is handled, so that a worker
  /// that drops the job later does not end its life.
  std::exception_ptr take_error() H5FEED_EXCLUDES(error_mutex_) {
    const MutexLock lock(error_mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  Mutex error_mutex_;
  std::exception_ptr error_ H5FEED_GUARDED_BY(error_mutex_);
};

}  // namespace h5feed
