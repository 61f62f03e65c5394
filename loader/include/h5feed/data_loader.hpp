// SPDX-License-Identifier: Apache-2.0
// The data loader without LibTorch: epochs of batches from a dataset.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/export.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/state.hpp"
#include "h5feed/stats.hpp"
#include "h5feed/verdict.hpp"

namespace h5feed {

struct DataLoaderAccess;

/// Options as the loader uses them, with every default filled in.
struct ResolvedOptions {
  std::int64_t batch_size = 1;  ///< samples per batch
  bool batched = true;          ///< whether batches have a batch dimension; false: single samples
  Shuffle shuffle;              ///< order; `full` if `sampled`
  bool sampled = false;         ///< whether a sampler, or a subset not in file order, determines the order
  std::int64_t max_batch_rows = 1;  ///< samples of the largest possible batch
  std::int64_t rank = 0;            ///< rank of this process
  std::int64_t world_size = 1;      ///< number of ranks
  Shard shard = Shard::strided;     ///< how samples are sharded across the ranks
  Uneven uneven = Uneven::exact;    ///< how shards of different sizes are handled
  /// Samples that this rank delivers per epoch, exact to within one batch.
  std::int64_t samples_per_epoch = 0;
  std::uint64_t chunks_per_epoch = 0;     ///< approximate number of chunks of the data that this rank reads
  std::uint64_t chunks_of_all_ranks = 0;  ///< chunks of the data that all ranks together read
  std::int64_t num_workers = 0;           ///< worker threads; 0: the thread that calls `next()` does the work
  std::uint64_t prefetch_batches = 1;     ///< batches in preparation or ready at once
  /// Whether the loader adapts itself (`num_workers = kAuto`). `num_workers`, `prefetch_batches` and
  /// `io_depth` then are the most that it may choose, and memory is reserved for; `LoaderStats` has what it
  /// uses now.
  bool self_tuning = false;
  double cpu_limit = 0;               ///< CPUs that workers may use with `self_tuning`; 0 without it
  std::int64_t local_world_size = 1;  ///< processes that share this host
  bool drop_last = false;             ///< whether a last batch smaller than `batch_size` is dropped
  std::optional<std::chrono::milliseconds> timeout;  ///< longest wait in `next()`; unset: no limit
  bool in_order = true;           ///< whether batches are delivered in the order of the epoch
  bool provenance = false;        ///< whether `Batch::origins` is filled
  std::uint64_t seed = 0;         ///< seed of the order
  std::uint64_t cache_bytes = 0;  ///< bytes of decoded data kept for reuse
  /// Cache policy in use. `lru` regardless of the option if all data fits in the cache, because nothing is
  /// evicted then.
  CachePolicy cache_policy = CachePolicy::lru;
  std::uint64_t memory_budget_bytes = 0;  ///< bound of the memory of all loaders of the dataset
  bool row_reads = false;                 ///< whether rows bypass the cache
  std::int64_t io_depth = 0;              ///< maximum number of stored chunks read ahead of decoding
  std::int64_t echo_factor = 1;           ///< deliveries of each batch
  std::int64_t concurrent_decodes = 1;  ///< chunks decoded at once; fewer than num_workers in a small budget
};

/// Samples that an epoch draws from one set of a mixture.
struct MixedSetPlan {
  double share = 0;          ///< weight in use, a multiple of 1/4096
  std::int64_t samples = 0;  ///< samples that an epoch draws from the set, over all ranks
  std::int64_t size = 0;     ///< samples of the set
  std::uint64_t chunks = 0;  ///< chunks that these samples come from, over all ranks
  /// Expected decodes of each of these chunks in every epoch after the first, repeated passes included. Empty
  /// where `PlanReport::decodes_per_chunk` is.
  std::optional<double> decodes_per_chunk = {};

  /// Returns how many times an epoch goes through the set; below 1 if it draws only some of the samples.
  double passes() const noexcept { return static_cast<double>(samples) / static_cast<double>(size); }
};

/// Predicted cost of an epoch, excluding repeats by `echo`. Counts chunks of the data only, not of targets
/// and fields; if a sample spans several chunks, they count as one.
struct H5FEED_EXPORT PlanReport {
  std::int64_t samples = 0;   ///< upper bound of the samples of this rank
  std::uint64_t batches = 0;  ///< batches of this rank
  std::uint64_t chunks = 0;   ///< chunks that the samples of this rank come from
  /// In episodes, the mean number of chunks in a group, the unit that `chunk:K` permutes, without those that
  /// its windows reach in other groups. Otherwise 1.
  double chunks_per_group = 1;
  /// Expected decodes per chunk in every epoch after the first. Empty if rows bypass the cache, and for
  /// `clairvoyant` with several ranks.
  std::optional<double> decodes_per_chunk;
  /// Expected decodes per chunk with `CachePolicy::clairvoyant`, about the least possible. Empty for
  /// samplers, for several ranks, and where only a long simulation could tell: chunks of many batches of
  /// which the cache holds little.
  std::optional<double> clairvoyant_decodes_per_chunk;
  /// Quality of shuffling: the probability that two samples of one batch come from different chunks, divided
  /// by that of a full shuffle. Near 0 in file order, 1 for `full`.
  double mixing = 0;
  /// `mixing` / `echo.factor`: repeats of a batch bring no new samples, so that among `echo.factor` batches
  /// in a row only this share of the samples is as fresh and as mixed as those of a full shuffle.
  double mixing_with_echo = 0;
  std::int64_t echo_factor = 1;   ///< deliveries of each batch
  std::uint64_t cache_bytes = 0;  ///< cache size in use
  /// Smallest cache size in bytes at which each chunk is decoded about once per epoch, tiled masks included;
  /// with tiles and windows also the chunks that batches in preparation need.
  std::uint64_t cache_bytes_decode_once = 0;
  /// Smallest cache size in bytes at which later epochs neither read nor decode.
  std::uint64_t cache_bytes_fit = 0;
  /// The sets of a mixture; empty for other datasets.
  std::vector<MixedSetPlan> sets = {};

  /// Returns a summary of a few lines for display.
  std::string to_string() const;
};

/// Predicts the cost of an epoch of a loader with these options, without making the loader. Blocks for up to
/// about 0.2 s of simulation, usually 20 ms. Throws as the constructor of `DataLoader` does.
H5FEED_EXPORT PlanReport plan(const Dataset& dataset, const DataLoaderOptions& options);

/// Delivers a dataset in batches, epoch after epoch. The constructor starts the worker threads, which persist
/// over all epochs and prepare the first batches of the next epoch while the last ones of the current epoch
/// are consumed.
///
/// The order depends only on (seed, epoch), not on the number of workers. `next()`, `next_into()`,
/// `start_epoch()`, `set_epoch()`, `warm_up()`, `state()`, `restore()` and the iterators are for one thread
/// at a time. `stats()`, `report()`, `verdict()`, `plan()`, `size()` and `options()` are thread-safe,
/// except while `restore()` runs.
/// The destructor may run at any moment, waits only for tasks that already run, and leaves delivered batches
/// valid.
class H5FEED_EXPORT DataLoader {
 public:
  /// Creates the loader and starts its workers; blocks while `preload` loads chunks. Throws OptionError if an
  /// option is invalid, DatasetError if the options do not fit the data, FileError if `bad_list` has no
  /// space, DeviceError if a GPU was requested and cannot be used, std::system_error if a thread cannot be
  /// started, and whatever a sampler throws.
  DataLoader(Dataset dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Returns the number of batches of a whole epoch, including repeats by `echo`, also after `restore()`. If
  /// the epochs of a sampler differ in size, returns the number for epoch 0.
  std::uint64_t size() const noexcept;

  /// Selects the epoch that starts next, from its beginning, by `begin()`, `start_epoch()` or a `next()`
  /// outside an epoch. Does not affect a running epoch. Without this call, epochs count 0, 1, 2, … on every
  /// rank.
  void set_epoch(std::uint64_t epoch);

  /// Lets the workers prepare the first batches of the next epoch, as they do by themselves towards the end
  /// of an epoch. Use it for a validation loader, some batches before its turn. Does not block; has no effect
  /// while an epoch runs or without workers.
  void warm_up();

  /// Returns the position after the last batch that `next()` returned or failed to return; at the end of an
  /// epoch, the beginning of the next one. O(1). Throws OptionError with `in_order = false`, because a
  /// position then does not determine which samples were delivered, and with `headroom`, which repeats one
  /// batch.
  LoaderState state() const;

  /// Resumes from `state` with its seed: the next `begin()` or `next()` delivers the batch that follows.
  /// Workers, cache and device may differ from the saved run. With `Shard::strided` and `Uneven::exact`,
  /// another batch size, rank and world size give the same samples in the same global order; the other modes
  /// accept another world size only at the beginning of an epoch. A later `set_epoch()` starts its epoch from
  /// the beginning. The cost does not depend on the position.
  ///
  /// With `echo`, a state saved between two deliveries of a batch resumes with the remaining ones, so that
  /// the epoch delivers every sample `echo.factor` times. Another batch size or world size regroups these
  /// samples: their last batch may be smaller, and if they fill several batches, they are delivered repeat by
  /// repeat.
  ///
  /// Throws StateError if the state belongs to another dataset, order, sharding or `echo.factor`, or if
  /// `drop_last` would drop samples of an unfinished echo, and OptionError with `in_order = false`; the
  /// loader is then unchanged.
  void restore(const LoaderState& state);

  /// Starts the next epoch and abandons a running one. Does not wait for a batch. Throws what a sampler
  /// throws.
  void start_epoch();

  /// Returns the next batch; blocks until it is ready. Returns nullopt once at the end of an epoch; the
  /// following call starts the next epoch. If a batch failed, the call that would have returned it throws
  /// (FileError, ChunkError, …), and the following call goes on with the next batch. Throws TimeoutError if
  /// `timeout` elapses first, and DeviceError if the GPU fails. A batch on a GPU may still be in transfer
  /// when it is returned; see `DeviceBatch::use_on`.
  OptionalBatch<Batch> next();

  /// Waits until `next()` can return or throw without waiting for workers, for at most about `limit`; returns
  /// whether it can. Starts the next epoch if none is running, as `next()` does. The batch stays in the
  /// loader: a caller that returns to its own event loop in between loses nothing. With `num_workers = 0`,
  /// prepares the batch on the calling thread and checks `limit` between chunks. Counts as waiting: `timeout`
  /// of the following `next()` begins with the first call, and `stats()` include the time. Throws what a
  /// sampler throws when an epoch starts.
  bool wait_ready(std::chrono::milliseconds limit);

  /// Returns the next batch in GPU memory of the consumer, which `provide` supplies, written on a stream of
  /// the consumer. Work on that stream needs no further synchronization; other streams call
  /// `DeviceBatch::use_on`. Blocks and throws as `next()`; also throws OptionError if the loader delivers to
  /// the CPU, `provide` is empty, or an address is not on the device.
  OptionalBatch<Batch> next_into(const ProvideOutput& provide);

  /// Returns the next batch in fixed GPU tensors, as CUDA graphs need. The tensors have the dtype, strides
  /// and shape of the batches of the loader, with room for the batch in the first dimension. A smaller batch,
  /// the last of an epoch, fills their beginning; `Batch::size()` returns its size. `target` has no address
  /// if the dataset has no target. `fields` has each of `DeviceTensors::fields`, in any order. Throws
  /// OptionError for tensors that do not fit, naming the expected ones; the batch is lost then.
  OptionalBatch<Batch> next_into(const DeviceTensor& data, const DeviceTensor& target, GpuStream stream,
                                 const std::vector<DeviceField>& fields = {});

  /// Single-pass input iterator with the semantics of LibTorch's data loader: `begin()` starts an epoch, the
  /// batch may be moved from, and moving past the end throws std::out_of_range. After a batch failed, the
  /// next comparison or increment goes on to the batch after it. The iterator and its copies own the batch; a
  /// temporary iterator, as in `*loader.begin()`, returns a copy, which shares the tensors. Borrows the
  /// loader, which must outlive it. Not thread-safe.
  class H5FEED_EXPORT Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;

    Iterator() = default;
    /// Returns the current batch, which may be moved from. Blocks until it is ready, and throws as `next()`.
    /// Throws std::out_of_range at the end.
    Batch& operator*() const& { return current(); }
    /// Returns a copy of the current batch, which shares its tensors. Blocks and throws as on a named
    /// iterator.
    Batch operator*() const&& { return current(); }
    /// Returns the address of the current batch. Blocks until it is ready, and throws as `next()`. Throws
    /// std::out_of_range at the end.
    Batch* operator->() const& { return &current(); }
    /// Deleted: the batch of a temporary iterator could be destroyed before it is used. Name the iterator
    /// first.
    Batch* operator->() const&& = delete;
    /// Moves to the next batch. Blocks only if the current batch was not accessed yet. Throws
    /// std::out_of_range at the end.
    Iterator& operator++();
    /// Returns whether both iterators are at the end, or share one position. Blocks until the batch is ready,
    /// and throws as `next()`.
    bool operator==(const Iterator& other) const;

   private:
    friend class DataLoader;
    struct Cursor;
    Batch& current() const;
    explicit Iterator(std::shared_ptr<Cursor> cursor) : cursor_(std::move(cursor)) {}
    std::shared_ptr<Cursor> cursor_;  // null: the end
  };
  /// Starts the next epoch, abandons a running one, and returns an iterator to the first batch. Does not wait
  /// for that batch. Throws what a sampler throws.
  Iterator begin() &;
  /// Returns the end of every epoch.
  Iterator end() & noexcept { return {}; }
  /// Deleted: a temporary loader would be destroyed before its iterators. Name the loader first.
  Iterator begin() && = delete;
  /// Deleted: a temporary loader would be destroyed before its iterators. Name the loader first.
  Iterator end() && = delete;

  /// Returns the options in use, with every default filled in. Thread-safe, except while
  /// `restore()` runs.
  const ResolvedOptions& options() const noexcept;
  /// Predicts the cost of an epoch of this loader, excluding repeats. Blocks for up to about 0.2 s.
  /// Thread-safe, except while `restore()` runs.
  PlanReport plan() const;
  /// Returns a snapshot of the counters. Thread-safe, except while `restore()` runs.
  LoaderStats stats() const;
  /// Returns a summary of a few lines for display: time, samples/s, device, wait share and its cause, hit
  /// rate, decodes per chunk and their distance from the offline optimum, bytes read, memory. The first
  /// call simulates an epoch, usually 20 ms, at most about 0.2 s. Thread-safe, except while `restore()` runs.
  std::string report() const;
  /// Returns where the time of the running epoch went, or of the last one if none is running; unset before
  /// the first. Thread-safe, except while `restore()` runs.
  std::optional<Verdict> verdict() const;

 private:
  friend struct DataLoaderAccess;
  Iterator begin_into(ProvideOutput provide);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
