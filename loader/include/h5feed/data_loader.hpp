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
#include "h5feed/export.hpp"
#include "h5feed/options.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

/// Options as the loader uses them: every default filled in.
struct ResolvedOptions {
  std::int64_t batch_size = 1;
  bool batched = true;  ///< false: single samples without a batch dimension
  Shuffle shuffle;
  int num_workers = 0;
  std::size_t prefetch_batches = 1;  ///< batches in preparation or ready at once
  bool drop_last = false;
  std::optional<std::chrono::milliseconds> timeout;
  bool in_order = true;
  std::uint64_t seed = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t memory_budget_bytes = 0;
  bool row_reads = false;           ///< rows bypass the cache
  std::size_t io_depth = 0;         ///< stored chunks fetched ahead of decoding at most
  unsigned concurrent_decodes = 1;  ///< chunks decoded at once; less than num_workers in a small budget
};

/// Delivers a dataset in batches, epoch after epoch. Worker threads are started by the constructor,
/// persist over epochs, and begin the next epoch's first batches while the last ones are consumed.
///
/// Order depends only on (seed, epoch): the same for every number of workers. `next()`,
/// `start_epoch()`, `set_epoch()` and the iterators are for one thread at a time; `stats()`, `report()`,
/// `size()` and `options()` may be called from any.
/// Destruction is safe at any moment, waits only for tasks that already run, and leaves delivered
/// batches valid.
class H5FEED_EXPORT DataLoader {
 public:
  /// Throws OptionError; DatasetError where `options` do not fit the data.
  DataLoader(Dataset dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Batches of one epoch.
  std::size_t size() const noexcept;

  /// The number of the epoch that the next `begin()` (or first `next()`) starts. Without it epochs
  /// count 0, 1, 2, …
  void set_epoch(std::uint64_t epoch);

  /// Starts the next epoch; a running one is abandoned where it is.
  void start_epoch();

  /// The next batch, blocking until it is ready; nullopt once at the end of an epoch, after which
  /// the following call starts the next epoch. A failure of one batch is thrown by the call that
  /// would have returned it (FileError, ChunkError, …); the following call goes on with the next
  /// batch. Throws TimeoutError; with a GPU DeviceError. A batch on a GPU may still be on its way when it
  /// is returned: see DeviceBatch.
  std::optional<Batch> next();

  /// Single-pass input iterator with the semantics of LibTorch's data loader: `begin()` starts an
  /// epoch, the batch may be moved from, moving past the end throws.
  class H5FEED_EXPORT Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;

    Iterator() = default;
    Batch& operator*() const;
    Batch* operator->() const { return &**this; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const;

   private:
    friend class DataLoader;
    struct Cursor;
    explicit Iterator(std::shared_ptr<Cursor> cursor) : cursor_(std::move(cursor)) {}
    std::shared_ptr<Cursor> cursor_;  // null: the end
  };
  Iterator begin();
  Iterator end() noexcept { return {}; }

  const ResolvedOptions& options() const noexcept;
  LoaderStats stats() const;
  /// A few lines for people: time, samples/s, wait share and its cause, hit rate, memory.
  std::string report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
