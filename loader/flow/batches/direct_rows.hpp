// SPDX-License-Identifier: Apache-2.0
// Rows straight from the file into the batch, past the cache.
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

/// Reads rows of uncompressed data. Thread-safe, as long as each visit of a job runs once.
class DirectRows {
 public:
  /// What it works with. All outlive it.
  struct Parts {
    const Field& field;
    bool as_they_are = false;   ///< stored rows are delivered rows, each once
    std::size_t row_bytes = 0;  ///< of a delivered row
    Counters& counters;
  };
  /// Brings a stored row to its place in the batch.
  using Place = std::function<void(const std::byte* row, std::uint32_t position)>;
  explicit DirectRows(const Parts& parts) : parts_(parts) {}

  /// Memory of one worker thread that its visits reuse.
  struct Scratch {
    ByteBuffer rows;
    std::vector<std::span<std::byte>> outs;
  };

  /// Adds the visits that read the job's rows of a field, which are in file order. Throws std::bad_alloc.
  void plan(BatchJob& job, std::size_t field_number) const;

  /// Does one of them: rows that are delivered as they are go to `out`, the field's part of the batch, others
  /// to `place`. Blocks. Throws FileError.
  void read(const BatchJob& job, const Visit& visit, std::byte* out, const Place& place,
            Scratch& scratch) const;

 private:
  void hint(std::span<const RowAt> rows) const;
  void note_read(bool slept) const noexcept;

  const Parts parts_;
  mutable std::atomic<int> cold_rows_ = 0;  // > 0: reads have lately waited for the storage
};

}  // namespace h5feed
