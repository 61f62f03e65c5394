// SPDX-License-Identifier: Apache-2.0
// Random access to samples, for programs that choose the next sample themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "h5feed/batch.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"
#include "h5feed/options.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

/// Options of `SampleReader`, with the meaning of `DataLoaderOptions`.
struct SampleReaderOptions {
  /// Normalization of the data. Unset: values are not normalized.
  std::optional<Normalize> normalize = {};
  /// Scales the data to 0 … 1, for a dataset that was opened without `DatasetOptions::unit_range`.
  bool unit_range = false;
  /// Element type of the targets. Default: int64 for integers, else the stored type.
  std::optional<DType> target_dtype = {};
  /// Bytes of decoded chunks kept for reuse. Default: as for `DataLoaderOptions::cache_bytes`.
  std::optional<std::uint64_t> cache_bytes = {};
  /// Upper bound of all memory that the loaders and readers of one opened dataset allocate together. Default:
  /// 50 % of the available memory.
  std::optional<std::uint64_t> memory_budget_bytes = {};
  /// Whether rows of uncompressed data bypass the chunk cache and are read directly into the batch.
  RowReads row_reads = RowReads::automatic;
  /// Seed of what a sample draws in each epoch: places and turns of tiles, anchors in episodes.
  std::uint64_t seed = 0;
  /// Epoch of what a sample draws; a loader with the same seed delivers the same samples in this epoch.
  std::uint64_t epoch = 0;
};

/// Random access to a dataset on the calling threads. Decoded chunks stay in the cache that the loaders of
/// the dataset share. A chunk that several threads need is decoded once, by one of them, while the others
/// wait. At most as many chunks are decoded concurrently as there are usable CPUs, fewer in a small budget.
///
/// Does not read ahead, as the next samples are unknown. A `DataLoader` does, and is faster. Thread-safe.
class H5FEED_EXPORT SampleReader {
 public:
  /// Creates a reader. Throws OptionError if an option is invalid, DatasetError if `options` do not fit the
  /// data.
  explicit SampleReader(Dataset dataset, SampleReaderOptions options = {});
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;
  ~SampleReader();

  /// Returns the samples with these numbers as one batch. Numbers are 0 to the dataset's size − 1 (positions
  /// in a subset) and may repeat. The tensors own their memory and outlive the reader. Thread-safe. Blocks
  /// for reads and decoding. Throws OptionError for a number out of range; FileError, ChunkError,
  /// std::bad_alloc.
  Batch read(std::span<const std::int64_t> samples) const;

  /// Returns the dataset, borrowed from the reader.
  const Dataset& dataset() const noexcept;
  /// Returns the options as given, except that `normalize` includes the scale of `unit_range`.
  const SampleReaderOptions& options() const noexcept;
  /// Returns a snapshot of the counters. Thread-safe. Fields about epochs, waiting, the cache in use, output
  /// buffers, batches in preparation and GPUs are 0.
  LoaderStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
