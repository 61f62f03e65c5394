// SPDX-License-Identifier: Apache-2.0
// Reads rows directly from the file into the batch, bypassing the cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/byte_buffer.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/measure/counters.hpp"

namespace h5feed {

/// Reads rows of uncompressed data. Thread-safe if each visit of a job runs once.
class DirectRows {
 public:
  /// The field, which must outlive the DirectRows, and how its rows are delivered.
  struct Parts {
    const Field& field;
    bool as_they_are = false;   ///< True if rows are delivered unconverted, and once each
    bool hints = false;         ///< True if visits are planned ahead of their reads, so that hints can help
    std::size_t row_bytes = 0;  ///< Bytes of a delivered row
    std::uint64_t stored_row_bytes = 0;  ///< Bytes of a stored row, on average
    Counters& counters;
  };
  /// Delivers a stored row to the sample at `position` of the batch.
  using Place = std::function<void(const std::byte* row, std::uint32_t position)>;
  /// Delivers a row of a sparse matrix to the sample at `position` of the batch.
  using PlaceSparse = std::function<void(const SparseReader::Row& row, std::uint32_t position)>;
  explicit DirectRows(const Parts& parts) : parts_(parts) {}

  /// Buffers of one worker thread, reused across its visits.
  struct Scratch {
    ByteBuffer rows;
    std::vector<std::span<std::byte>> outs;
    ReadScratch sparse;
  };

  /// Adds the visits that read the job's rows of a field; `job.rows` of the field must be in file order.
  /// Throws std::bad_alloc.
  void plan(BatchJob& job, std::size_t field_number) const;

  /// Does one visit: reads rows that need no conversion into `out`, the field's part of the batch, and passes
  /// others to `place`. Blocks. Throws FileError, std::bad_alloc.
  void read(const BatchJob& job, const Visit& visit, std::byte* out, const Place& place,
            Scratch& scratch) const;

  /// Does one visit of a sparse matrix, whose rows are those of `reader`, and passes them to `place`. Blocks.
  /// Throws FileError, ChunkError, std::bad_alloc.
  void read_sparse(const BatchJob& job, const Visit& visit, const SparseReader& reader,
                   const PlaceSparse& place, Scratch& scratch) const;

 private:
  template <typename ReadSome>
  void read_visit(const BatchJob& job, const Visit& visit, const ReadSome& read_some) const;
  void hint(std::span<const RowAt> rows) const;
  void note_read(bool slept) const noexcept;

  const Parts parts_;
  mutable std::atomic<int> cold_rows_ = 0;  // > 0 if recent reads waited for storage
};

}  // namespace h5feed
