// SPDX-License-Identifier: Apache-2.0
// Collection of the chunks and rows that a loader could not read.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/measure/counters.hpp"
#include "h5feed/options.hpp"
#include "store/read/bad_list.hpp"

namespace h5feed {

/// Remembers the chunks and rows that cannot be read or decoded, and names each bad chunk once: in the log,
/// in the list of bad chunks, and in the counter. A chunk whose stored bytes are corrupt is bad for good; one
/// that could not be read is tried again in each epoch, as storage may recover. Thread-safe.
class BadData {
 public:
  /// Borrows `dataset` and `counters`. `on_error` is named in the log. With an empty `list` no list is
  /// written. Throws OptionError if the list cannot be written.
  BadData(const DatasetState& dataset, OnError on_error, const std::filesystem::path& list,
          Counters& counters);

  /// Returns whether an error is one of the data: FileError or ChunkError.
  static bool is_of_data(const std::exception_ptr& error) noexcept;

  /// Records that a chunk could not be loaded in `epoch`; `error` says why and is an error of the data.
  /// Throws std::bad_alloc.
  void add_chunk(ChunkKey key, std::uint64_t epoch, const std::exception_ptr& error) H5FEED_EXCLUDES(mutex_);

  /// Records that row `row` of field `field`, whose rows are read one by one, could not be read in `epoch`.
  /// The rows of other samples in its chunk stay good. Throws std::bad_alloc.
  void add_row(std::uint32_t field, std::uint64_t row, std::uint64_t epoch, const std::exception_ptr& error)
      H5FEED_EXCLUDES(mutex_);

  /// Returns whether nothing bad was found yet. Takes no lock.
  bool empty() const noexcept { return empty_.load(std::memory_order_acquire); }

  /// Returns whether the chunk is known to be bad in `epoch`.
  bool has_chunk(ChunkKey key, std::uint64_t epoch) const H5FEED_EXCLUDES(mutex_);

  /// Returns whether the chunk was found bad in any epoch.
  bool was_found(ChunkKey key) const H5FEED_EXCLUDES(mutex_);

  /// Returns for each sample whether a chunk or row that it needs in the epoch of `key` is known to be bad
  /// then. Throws std::bad_alloc.
  std::vector<bool> spoiled(std::span<const std::int64_t> samples, const EpochKey& key) const
      H5FEED_EXCLUDES(mutex_);

  /// Returns the message of the fault found last; empty if there is none.
  std::string last_fault() const H5FEED_EXCLUDES(mutex_);
  /// Returns the path of the list; empty if none is written.
  std::filesystem::path list_path() const { return list_ ? list_->path() : std::filesystem::path(); }

 private:
  // The epoch in which it was found, or every epoch.
  struct Found {
    bool lasting = false;
    std::uint64_t epoch = 0;

    bool holds_in(std::uint64_t of_epoch) const noexcept { return lasting || epoch == of_epoch; }
  };
  // Bad chunks and rows of one field, by their numbers.
  struct OfField {
    std::map<std::uint64_t, Found> chunks;
    std::map<std::uint64_t, Found> rows;
  };

  void note(std::map<std::uint64_t, Found> OfField::*kind, ChunkKey key, std::uint64_t epoch,
            const std::exception_ptr& error, ChunkKey named) H5FEED_EXCLUDES(mutex_);
  void name(ChunkKey key, const std::string& error);
  BadChunk entry_of(ChunkKey key, const std::string& error) const;
  bool spoils(const OfField& bad, std::size_t field, std::uint64_t sample, const EpochKey& key,
              std::vector<std::uint64_t>& pieces) const;

  static bool spoils_row(const OfField& bad, const Field* rows, std::uint64_t row, const EpochKey& key,
                         std::vector<std::uint64_t>& pieces);

  const DatasetState& dataset_;
  const OnError on_error_;
  Counters& counters_;
  std::optional<BadList> list_;
  std::atomic<bool> empty_ = true;
  mutable Mutex mutex_;
  std::vector<OfField> fields_ H5FEED_GUARDED_BY(mutex_);                              // one per field
  std::set<std::pair<std::uint32_t, std::uint64_t>> named_ H5FEED_GUARDED_BY(mutex_);  // field, chunk
  std::string last_fault_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
