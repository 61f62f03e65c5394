// SPDX-License-Identifier: Apache-2.0
// Assembles a batch: plans its visits and copies its rows out of chunks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/byte_buffer.hpp"
#include "batch/buffer_pool.hpp"
#include "batch/device.hpp"
#include "batch/row_kernel.hpp"
#include "cache/row_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/batch_outputs.hpp"
#include "flow/batches/direct_rows.hpp"
#include "flow/batches/field_batch.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/faults/sample_choice.hpp"
#include "flow/measure/counters.hpp"
#include "flow/resolve/resolve.hpp"

namespace h5feed {

/// Plans jobs and copies their rows; keeps no state per job. Thread-safe if each visit of a job runs once,
/// after `plan` of the job returned. Loads no chunks: ChunkLoader does.
class BatchAssembler {
 public:
  /// Creates the kernels and pools of every field. Borrows its arguments, which must outlive it. Throws
  /// OptionError if the options do not fit a field, or a field in memory has a value that its delivered type
  /// cannot hold; std::bad_alloc. Without `device`, batches may have any number of samples, and each gets
  /// memory of its own. `choice` leaves out or replaces unreadable samples; null: they are planned as others.
  BatchAssembler(const DatasetState& dataset, const Resolved& resolved, Device* device, Counters& counters,
                 const SampleChoice* choice = nullptr);

  /// Sets how many batches are prefetched; at first `prefetch_batches` of the options. Large rows that are
  /// delivered as stored are copied past the CPU caches while that many batches exceed them.
  void set_prefetched(std::uint64_t batches) noexcept {
    prefetched_.store(batches, std::memory_order_relaxed);
  }
  /// Returns whether rows of a field are copied past the CPU caches now.
  bool copies_past_caches(std::size_t field) const noexcept;

  using Scratch = DirectRows::Scratch;
  /// Takes the row of the visit's field that cannot be read, and the error.
  using UnreadableRow = std::function<void(std::uint64_t row, const std::exception_ptr& error)>;

  /// Fills in the job's samples unless they were given, memory, resident fields and visits. Returns false if
  /// no output memory is free now and `wait` is false; plan the job again later. With `wait`, blocks until
  /// memory is free. Throws std::bad_alloc, DeviceError, and as `SampleChoice::apply`.
  bool plan(BatchJob& job, bool wait) const;

  /// Does a visit that bypasses the cache: reads its rows from the file. Blocks. Throws FileError,
  /// ChunkError, OptionError for a value that the delivered type cannot hold, std::bad_alloc.
  void read_direct(BatchJob& job, const Visit& visit, Scratch& scratch) const;

  /// Reads each row of a visit that bypasses the cache by itself, after the visit failed, and calls
  /// `unreadable` for those that fail with FileError or ChunkError; ends once `unwanted` returns true.
  /// Blocks. Throws all other errors.
  void find_unreadable(const BatchJob& job, const Visit& visit, const std::function<bool()>& unwanted,
                       const UnreadableRow& unreadable) const;

  /// Does a visit of a chunk: copies its rows out of the decoded chunk. Throws what the user's transform
  /// throws.
  void copy_rows(BatchJob& job, const Visit& visit, const std::byte* chunk) const;

  /// Does a visit of a chunk with rows that were kept apart from it, in the order of the visit. Throws what
  /// the user's transform throws.
  void copy_rows(BatchJob& job, const Visit& visit, const RowCache::Lease& rows) const;

  /// Completes a batch after its last visit: assembles the fields whose samples span several chunks. Throws
  /// what the user's transform throws.
  void finish(BatchJob& job) const;

  /// Starts the copy to a GPU after `finish`; does nothing on the CPU. `trace` may be null.
  void hand_to_device(BatchJob& job, TraceSink* trace) const noexcept;

 private:
  /// Kernel and buffers of one field.
  struct Lane {
    const Field* field = nullptr;  ///< Null if absent from the dataset or ragged
    std::unique_ptr<const RaggedRows> ragged;
    std::unique_ptr<const RowKernel> kernel;
    std::unique_ptr<const RowKernel> past_caches;  ///< Copies large rows past the caches; null if it must not
    std::size_t rows_per_sample = 1;               ///< Rows of a window; a position counts them
    std::size_t row_bytes = 0;                     ///< Bytes of a delivered row
    std::size_t batch_bytes = 0;                   ///< Bytes of a delivered batch and its echoes
    ByteBuffer zeros;                     ///< A stored row of zeros; empty unless rows may be missing
    std::unique_ptr<BufferPool> staging;  ///< Null unless samples span chunks
  };

  Lane make_lane(std::size_t lane_number, RowKernelSpec spec, std::size_t row_bytes) const;
  void place(BatchJob& job, std::size_t lane_number, const std::byte* row, std::uint32_t position) const;
  void place_missing(BatchJob& job, std::size_t lane_number, std::uint32_t position) const;
  void plan_resident(BatchJob& job, std::size_t lane_number) const;
  void plan_lane(BatchJob& job, std::size_t lane_number) const;
  void read_ragged(BatchJob& job, const Visit& visit) const;
  void gather_sparse(BatchJob& job, const Visit& visit, const std::byte* chunk) const;
  void place_sparse(BatchJob& job, const SparseReader::Row& row, std::uint32_t position,
                    ByteBuffer& sample) const;
  template <typename RowInChunk>
  void gather(BatchJob& job, const Visit& visit, const RowInChunk& row_in_chunk) const;

  const DatasetState& dataset_;
  const Resolved& resolved_;
  Device* const device_;  // may be null
  Counters& counters_;
  const SampleChoice* const choice_;       // may be null
  std::atomic<std::uint64_t> prefetched_;  // batches
  BatchOutputs outputs_;
  std::vector<Lane> lanes_;
  std::optional<DirectRows> direct_;  // only if rows of the data bypass the cache
};

}  // namespace h5feed
