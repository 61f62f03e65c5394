// SPDX-License-Identifier: Apache-2.0
// One batch between its plan and its consumer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/sample_place.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/batch.hpp"
#include "plan/epoch_key.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Maps row `row` of a field to `position`, the sample's index in the batch.
struct RowAt {
  std::uint64_t row = 0;
  std::uint32_t position = 0;
};

/// The rows of one field of a batch that come from one chunk, or from a run of rows that bypass the cache.
struct Visit {
  std::uint32_t field = kData;
  std::uint32_t piece = 0;  ///< Index of the part of each sample, if samples span several chunks
  std::uint64_t chunk = 0;
  std::uint32_t first_row = 0;  ///< First index into BatchJob::rows[field]
  std::uint32_t num_rows = 0;
  bool direct = false;  ///< True if read from the file, bypassing the cache
};

/// A batch that tasks work on: filled in by its plan task, then by the tasks of its visits concurrently and
/// in any order, and handed to the consumer after the last visit. Tasks and ring share ownership, so it can
/// be abandoned at any time.
struct BatchJob : std::enable_shared_from_this<BatchJob> {
  BatchJob(std::uint64_t job_ticket, std::uint64_t job_round, std::shared_ptr<const EpochPlan> epoch_plan,
           std::uint64_t epoch_number, std::uint64_t number_in_plan)
      : ticket(job_ticket),
        round(job_round),
        plan(std::move(epoch_plan)),
        number(number_in_plan),
        epoch(epoch_number) {
    batch.epoch = epoch;
    batch.number = plan->first_number() + number;
  }
  /// Copies the identity of `job`, but none of its progress: the batch is planned again as `next_attempt`.
  BatchJob(const BatchJob& job, std::uint32_t next_attempt)
      : BatchJob(job.ticket, job.round, job.plan, job.epoch, job.number) {
    first_turn = job.first_turn;
    seed = job.seed;
    first_repeat = job.first_repeat;
    end_repeat = job.end_repeat;
    attempt = next_attempt;
  }
  /// A job of `samples` as they are in the epoch of `key`, without a plan.
  BatchJob(std::vector<std::int64_t> samples, const EpochKey& key) : epoch(key.epoch), seed(key.seed) {
    batch.indices = std::move(samples);
    batch.epoch = epoch;
  }

  const std::uint64_t ticket = 0;               ///< Sequence number of the job over all epochs of the loader
  const std::uint64_t round = 0;                ///< Run through the data; an epoch may run several times
  const std::shared_ptr<const EpochPlan> plan;  ///< Null if the samples were given
  const std::uint64_t number = 0;  ///< Number of the batch in `plan`, which may start within the epoch
  const std::uint64_t epoch = 0;   ///< Epoch of the batch
  // These five are set before the job is submitted.
  std::uint64_t first_turn = 0;   ///< Turn of the first sample (flow/chunks/row_future.hpp)
  std::uint64_t seed = 0;         ///< Seed of the loader when the job was issued
  std::int64_t first_repeat = 0;  ///< Deliveries of the batch before the run was resumed
  std::int64_t end_repeat = 1;    ///< Total deliveries of the batch, earlier ones included
  std::uint32_t attempt = 0;      ///< How often the batch was planned before, and met unknown bad data

  // Written by the plan task and read-only afterwards, except the bytes that `batch` points to: each visit
  // writes the rows that are its own.
  Batch batch;
  std::vector<std::uint32_t> data_places;  ///< `BatchSlot::places` of `batch`
  std::vector<Batch> echoes;               ///< Further deliveries of the same samples, each in its own memory
  std::vector<std::vector<RowAt>> rows;    ///< Rows per field, in file order; for tiles, grouped by visit
  std::vector<std::shared_ptr<std::byte>>
      staging;  ///< Stored rows per field; null unless samples span chunks
  std::vector<Visit> visits;
  /// Planned position of the sample at each position, or `kReplaced`; empty: all are as planned.
  std::vector<std::uint32_t> planned_at;
  std::uint64_t bad_samples = 0;  ///< Planned samples that were left out or replaced

  std::atomic<std::size_t> remaining = 0;  ///< Visits not yet done
  std::atomic<bool> announced = false;     ///< Its visits are known, and those of chunks on the agenda
  std::atomic<bool> cancelled = false;     ///< No consumer will take the batch; tasks drop it
  std::atomic<bool> failed = false;        ///< An exception is kept; no rows are copied any more
  std::atomic<bool> spoiled = false;       ///< Met bad data: is planned again after its last visit

  /// A value of `planned_at`: the sample replaces another one.
  static constexpr std::uint32_t kReplaced = UINT32_MAX;

  /// Returns what determines the random choices of its samples.
  EpochKey key() const noexcept { return {seed, epoch}; }
  /// Returns whether the batch will not be delivered, so that copying its rows is useless.
  bool is_lost() const noexcept {
    return failed.load(std::memory_order_acquire) || spoiled.load(std::memory_order_acquire);
  }
  /// Returns the turn (flow/chunks/row_future.hpp) of the sample at `position`; nullopt if it is a
  /// replacement.
  std::optional<std::uint64_t> turn_of(std::uint32_t position) const noexcept {
    if (planned_at.empty()) return first_turn + position;
    if (planned_at[position] == kReplaced) return std::nullopt;
    return first_turn + planned_at[position];
  }

  /// Returns the place of the sample at `position` of the batch in the memory of a field.
  std::uint32_t place_of(std::size_t field, std::uint32_t position) const noexcept {
    return field == kData && !data_places.empty() ? data_places[position] : position;
  }
  /// Returns whether the field of the sample at `position` stays on the GPU and is not needed.
  bool on_device(std::size_t field, std::size_t position) const noexcept {
    return place_of(field, static_cast<std::uint32_t>(position)) == kOnDevice;
  }

  /// Marks the job as failed and keeps `exception` if it is the first. Thread-safe.
  void fail(std::exception_ptr exception) H5FEED_EXCLUDES(error_mutex_) {
    const MutexLock lock(error_mutex_);
    if (!error_) error_ = std::move(exception);
    failed.store(true, std::memory_order_release);
  }

  /// Returns the kept exception, null if none, and clears it: the consumer becomes its only owner, so that a
  /// worker that drops the job later does not destroy it. Thread-safe.
  std::exception_ptr take_error() H5FEED_EXCLUDES(error_mutex_) {
    const MutexLock lock(error_mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  Mutex error_mutex_;
  std::exception_ptr error_ H5FEED_GUARDED_BY(error_mutex_);
};

}  // namespace h5feed
