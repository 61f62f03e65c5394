// The loader without Torch: epochs of batches from a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "h5feed/batch.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/export.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/state.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

/// Options as the loader uses them: every default filled in.
struct ResolvedOptions {
  std::int64_t batch_size = 1;
  bool batched = true;  ///< false: single samples without a batch dimension
  Shuffle shuffle;
  bool sampled = false;              ///< a sampler, or a subset as it was given, decides the order
  std::uint64_t max_batch_rows = 1;  ///< samples of the largest batch there can be
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  Shard shard = Shard::strided;
  Uneven uneven = Uneven::exact;
  std::uint64_t samples_per_epoch = 0;   ///< that this rank delivers, to within one batch
  std::uint64_t chunks_per_epoch = 0;    ///< of samples, that these come from, about
  std::uint64_t chunks_taking_part = 0;  ///< of samples, on all ranks together
  int num_workers = 0;
  std::size_t prefetch_batches = 1;  ///< batches in preparation or ready at once
  bool drop_last = false;
  std::optional<std::chrono::milliseconds> timeout;
  bool in_order = true;
  bool provenance = false;
  std::uint64_t seed = 0;
  std::uint64_t cache_bytes = 0;
  /// `lru` also where the option said otherwise, but all data fits the cache: then nothing is ever evicted.
  CachePolicy cache_policy = CachePolicy::lru;
  std::uint64_t memory_budget_bytes = 0;
  bool row_reads = false;           ///< rows bypass the cache
  std::size_t io_depth = 0;         ///< stored chunks fetched ahead of decoding at most
  std::uint64_t echo_factor = 1;    ///< times each batch is delivered
  unsigned concurrent_decodes = 1;  ///< chunks decoded at once; less than num_workers in a small budget
};

/// What a loader will cost in an epoch, foretold, without echoes. Chunks are those of the samples; where a
/// sample spans several, these count as one.
struct H5FEED_EXPORT PlanReport {
  std::uint64_t samples = 0;  ///< of this rank, at most
  std::uint64_t batches = 0;
  std::uint64_t chunks = 0;
  /// Expected with these options in every epoch but the first; empty where rows bypass the cache, and for
  /// `clairvoyant` with several ranks.
  std::optional<double> decodes_per_chunk;
  /// With `CachePolicy::clairvoyant`: about the least possible. Empty for samplers and several ranks.
  std::optional<double> clairvoyant_decodes_per_chunk;
  /// How well batches are mixed: the probability that two samples of one batch come from different chunks,
  /// divided by that of a full shuffle. Near 0 in file order, 1 for `full`.
  double mixing = 0;
  std::uint64_t cache_bytes = 0;              ///< as resolved
  std::uint64_t cache_bytes_decode_once = 0;  ///< from which each chunk is decoded once an epoch
  std::uint64_t cache_bytes_fit = 0;          ///< from which later epochs neither read nor decode

  /// A few lines for people.
  std::string to_string() const;
};

/// What a loader with these options would cost, without making one. Blocks for up to some 20 ms of
/// simulation. Throws as the constructor of `DataLoader`.
H5FEED_EXPORT PlanReport plan(const Dataset& dataset, const DataLoaderOptions& options);

/// Delivers a dataset in batches, epoch after epoch. Worker threads are started by the constructor,
/// persist over epochs, and begin the next epoch's first batches while the last ones are consumed.
///
/// Order depends only on (seed, epoch): the same for every number of workers. `next()`,
/// `start_epoch()`, `set_epoch()`, `warm_up()`, `state()`, `restore()` and the iterators are for one thread
/// at a time; `stats()`, `report()`, `size()` and `options()` may be called from any, but not while
/// `restore()` runs.
/// Destruction is safe at any moment, waits only for tasks that already run, and leaves delivered
/// batches valid.
class H5FEED_EXPORT DataLoader {
 public:
  /// Throws OptionError; DatasetError where `options` do not fit the data.
  DataLoader(Dataset dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Batches of one whole epoch, with their echoes, also after `restore()`; of epoch 0 where a sampler gives
  /// epochs of different sizes.
  std::size_t size() const noexcept;

  /// The number of the epoch that the next `begin()` (or first `next()`) starts, from its begin. Without it
  /// epochs count 0, 1, 2, …, on every rank alike.
  void set_epoch(std::uint64_t epoch);

  /// Lets the workers prepare the first batches of the epoch that comes next, as they do by themselves
  /// towards the end of an epoch: for a validation loader, called some batches before its turn comes. Does
  /// not wait; does nothing while an epoch runs, or without workers.
  void warm_up();

  /// Where the run stands: after the batches that `next()` returned or failed with. O(1). Towards the
  /// end, the begin of the next epoch. Throws OptionError with `in_order = false`, where a position does
  /// not say which samples came.
  LoaderState state() const;

  /// Goes on where `state` was saved, with its seed: the next `begin()` or `next()` delivers the batch that
  /// follows. Other workers, cache, device and, with `Shard::strided` and `Uneven::exact`, another batch
  /// size, rank and world size give the same samples in the same global order; the other modes take another
  /// world size at an epoch's begin only. A `set_epoch()` afterwards would begin that epoch anew. The cost
  /// does not depend on the position.
  ///
  /// With `echo`, a state saved between two deliveries of a batch resumes with the rest of them, so that the
  /// epoch delivers every sample `echo.factor` times. Another batch size or world size cuts these samples
  /// anew: their last batch may be smaller, and where they fill several batches, they come repeat by repeat.
  ///
  /// Throws StateError where the state is of another dataset, order, sharding or `echo.factor`, or where
  /// `drop_last` would leave out samples of an echo that was begun; the loader then is as before.
  void restore(const LoaderState& state);

  /// Starts the next epoch; a running one is abandoned where it is.
  void start_epoch();

  /// The next batch, blocking until it is ready; nullopt once at the end of an epoch, after which
  /// the following call starts the next epoch. A failure of one batch is thrown by the call that
  /// would have returned it (FileError, ChunkError, …); the following call goes on with the next
  /// batch. Throws TimeoutError; with a GPU DeviceError. A batch on a GPU may still be on its way when it
  /// is returned: see DeviceBatch.
  OptionalBatch<Batch> next();

  /// As `next()`, for a loader that delivers to GPUs: the batch is written to memory of the consumer, which
  /// `provide` gives, on a stream of the consumer, so that nothing waits for anything else; other streams
  /// use `DeviceBatch::use_on`. Throws OptionError on the CPU, and for an address that is not of the device.
  OptionalBatch<Batch> next_into(const ProvideOutput& provide);

  /// The same for memory that stays, as CUDA graphs need: tensors of the loader's dtype, strides and shape,
  /// with room for the batch in the first dimension; a smaller batch, the last of an epoch, fills its
  /// beginning, and `Batch::size()` says how far. `target` is left without address where there is none. For
  /// one device. Throws OptionError for tensors that do not fit, naming what would; the batch is lost then.
  OptionalBatch<Batch> next_into(const DeviceTensor& data, const DeviceTensor& target, GpuStream stream);

  /// Single-pass input iterator with the semantics of LibTorch's data loader: `begin()` starts an
  /// epoch, the batch may be moved from, moving past the end throws. Where a batch failed, comparing again or
  /// moving on goes to the batch after it. The batch belongs to the iterator and its copies: a temporary
  /// iterator, as in `*loader.begin()`, gives a copy of it, which shares the tensors.
  class H5FEED_EXPORT Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;

    Iterator() = default;
    Batch& operator*() const& { return current(); }
    Batch operator*() const&& { return current(); }
    Batch* operator->() const& { return &current(); }
    Batch* operator->() const&& = delete;
    Iterator& operator++();
    bool operator==(const Iterator& other) const;

   private:
    friend class DataLoader;
    struct Cursor;
    Batch& current() const;
    explicit Iterator(std::shared_ptr<Cursor> cursor) : cursor_(std::move(cursor)) {}
    std::shared_ptr<Cursor> cursor_;  // null: the end
  };
  /// `begin()` starts the next epoch.
  Iterator begin() &;
  Iterator end() & noexcept { return {}; }
  /// A loader that has no name ends before its iterators: name it first.
  Iterator begin() && = delete;
  Iterator end() && = delete;

  const ResolvedOptions& options() const noexcept;
  /// As the free function.
  PlanReport plan() const;
  LoaderStats stats() const;
  /// A few lines for people: time, samples/s, device, wait share and its cause, hit rate, decodes per chunk
  /// and their distance from the offline optimum, bytes read, memory. The first call may take some 20 ms.
  std::string report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
