// SPDX-License-Identifier: Apache-2.0
// Parts of the memory budget of a loader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/loader_group.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Returns a · b, at most 2⁶⁰: more than any memory, and sums of a few of them do not overflow.
inline std::uint64_t capped_product(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 60;
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kTooMuch : std::min(result, kTooMuch);
}

/// All parts of the memory budget of a loader, in bytes. Thread-safe.
class MemoryBudget {
 public:
  /// Counts the fields of `dataset`. `others` is the memory of the dataset's other loaders.
  MemoryBudget(const DatasetState& dataset, const DeliveryFormat& format, const ResolvedOptions& options,
               const MemoryUse& others);

  /// Returns the memory needed with `decodes` concurrent decodes and `io_depth` chunks read ahead. Decoded
  /// chunks are entries of the cache, so they count only beyond its capacity; a cache of rows is separate
  /// from them.
  std::uint64_t total(std::uint64_t cache_bytes, std::uint64_t decodes, std::uint64_t io_depth) const {
    return fixed() + held(cache_bytes, decodes) + reading(decodes, io_depth);
  }

  /// Returns the memory of decoded chunks that are not part of the cache.
  std::uint64_t decoding(std::uint64_t decodes) const { return rows_apart_ ? decodes * chunk_bytes_ : 0; }

  /// Returns the memory of stored chunks and filter buffers, in addition to decoded chunks.
  std::uint64_t reading(std::uint64_t decodes, std::uint64_t io_depth) const {
    return decodes * read_bytes_ + io_depth * stored_bytes_;
  }

  /// Returns the memory that neither decodes nor the cache change: targets held in memory, other loaders,
  /// batches, tables of chunks.
  std::uint64_t fixed() const {
    return resident_bytes_ + table_bytes_ + others_.own_bytes + slot_bytes(batch_size_);
  }

  /// Returns the part of `left` that the default cache and reading ahead may take. The rest is for images
  /// that are larger than the samples they become.
  std::uint64_t for_cache(std::uint64_t left) const { return image_bytes_ > 0 ? left / 2 : left; }

  /// Returns an estimate of what such an image takes, which further decodes and reading ahead must leave
  /// free; 0 without encoded images.
  std::uint64_t for_images() const { return image_bytes_; }

  /// Returns the memory that a loader with these options takes.
  MemoryUse use(const ResolvedOptions& options) const;

  /// Throws OptionError, which lists the parts and says what `budget` has room for.
  [[noreturn]] void refuse(std::uint64_t budget, std::uint64_t cache_bytes) const;

 private:
  std::uint64_t slot_bytes(std::uint64_t batch_size) const {
    return capped_product(capped_product(batch_size, row_bytes_), slots_);
  }

  // Returns the memory needed in addition to the cache, with one chunk being decoded.
  std::uint64_t cacheless() const {
    return fixed() + decoding(1) + reading(1, 0) + (shares_cache_ ? 0 : shared_by_others());
  }

  // Returns the memory of cache and decoded chunks of this loader if it shares no cache.
  std::uint64_t held_alone(std::uint64_t cache_bytes, std::uint64_t decodes) const {
    return rows_apart_ ? cache_bytes + decoding(decodes) : std::max(cache_bytes, decodes * chunk_bytes_);
  }

  std::uint64_t shared_by_others() const { return std::max(others_.cache_bytes, others_.decode_bytes); }

  // Returns the memory of caches and decoded chunks of all loaders of the dataset.
  std::uint64_t held(std::uint64_t cache_bytes, std::uint64_t decodes) const {
    if (!shares_cache_) return held_alone(cache_bytes, decodes) + shared_by_others();
    return std::max(std::max(cache_bytes, others_.cache_bytes),
                    decodes * chunk_bytes_ + others_.decode_bytes);
  }

  void count_field(const Field& field, bool row_reads);
  void count_plan(const ResolvedOptions& options);
  // Counts a table, unless it is nothing beside the buffers. `of_what` completes "tables of ".
  void count_table(std::uint64_t bytes, std::string_view of_what);

  MemoryUse others_;
  std::uint64_t batch_size_;
  std::uint64_t slots_;
  std::uint64_t row_bytes_;
  bool rows_apart_;    // clairvoyant: the row cache is separate from decoded chunks
  bool shares_cache_;  // lru: loaders share one cache
  std::uint64_t image_bytes_ = 0;
  std::uint64_t resident_bytes_ = 0;
  std::string tables_;              // says of what tables are kept
  std::uint64_t table_bytes_ = 0;   // what is kept for each chunk, if there are many
  std::uint64_t chunk_bytes_ = 0;   // largest decoded chunk
  std::uint64_t read_bytes_ = 0;    // largest need of one read in addition to the chunk
  std::uint64_t stored_bytes_ = 0;  // largest stored chunk
};

}  // namespace h5feed
