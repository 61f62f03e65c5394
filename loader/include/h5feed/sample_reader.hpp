// SPDX-License-Identifier: Apache-2.0
// Samples at any place of a dataset, for programs that decide themselves what comes next.
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

/// Options of `SampleReader`, with the meaning they have in `DataLoaderOptions`.
struct SampleReaderOptions {
  std::optional<Normalize> normalize = {};
  /// Delivers the data in 0 … 1, for a dataset that was opened without `DatasetOptions::unit_range`.
  bool unit_range = false;
  std::optional<DType> target_dtype = {};
  std::optional<std::uint64_t> cache_bytes = {};
  std::optional<std::uint64_t> memory_budget_bytes = {};
  RowReads row_reads = RowReads::automatic;
};

/// Random access to a dataset, on the threads that ask. What is decoded stays in the cache that the loaders
/// of the dataset share; a chunk that several threads want is decoded once, by one of them, while the others
/// wait. As many chunks are decoded at once as there are usable CPUs, fewer in a small budget.
///
/// Nothing is read ahead: the reader does not know what comes next. A `DataLoader` does, and is faster.
class H5FEED_EXPORT SampleReader {
 public:
  /// Throws OptionError; DatasetError where `options` do not fit the data.
  explicit SampleReader(Dataset dataset, SampleReaderOptions options = {});
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;
  ~SampleReader();

  /// The samples with these numbers, from 0 to the dataset's size − 1 (of a subset: positions in it), repeats
  /// allowed, as one batch of tensors of their own memory, which outlive the reader. Thread-safe; blocks for
  /// reads and decoding. Throws DatasetError for a number outside; FileError, ChunkError, std::bad_alloc.
  Batch read(std::span<const std::int64_t> samples) const;

  const Dataset& dataset() const noexcept;
  /// Returns the options as given, except that `unit_range` completes `normalize`.
  const SampleReaderOptions& options() const noexcept;
  /// Thread-safe. Times of waiting and of epochs are 0.
  LoaderStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
