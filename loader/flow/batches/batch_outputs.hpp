// SPDX-License-Identifier: Apache-2.0
// Provides the memory that a batch is assembled in, and draws the transforms of its samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "batch/buffer_pool.hpp"
#include "batch/device.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/sparse_batch.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/resolve/resolve.hpp"
#include "h5feed/batch.hpp"

namespace h5feed {

/// Prepares the outputs of jobs. Thread-safe.
class BatchOutputs {
 public:
  /// Creates the buffer pools of the fields. Borrows its arguments, which must outlive it. Without
  /// `device`, each batch gets memory of its own, as large as its samples. Throws std::bad_alloc.
  BatchOutputs(const DatasetState& dataset, const Resolved& resolved, Device* device);

  /// Gives a job and its echoes their memory, shapes and transforms. The job's samples must be known. Returns
  /// false and does nothing if no memory is free now and `wait` is false; with `wait`, blocks until it is.
  /// Throws std::bad_alloc, DeviceError.
  bool prepare(BatchJob& job, bool wait) const;

  /// Returns what lays out the data as CSR; null if it is delivered otherwise.
  const SparseBatch* sparse() const noexcept { return sparse_ ? &*sparse_ : nullptr; }

  /// Returns the start of a field's bytes in `batch`, which owns them.
  static std::byte* bytes_of(const Batch& batch, std::size_t field) noexcept {
    if (field == kData) return batch.data.bytes.get();
    if (field == kTarget) return batch.target.bytes.get();
    return batch.fields[field - kFirstNamed].values.bytes.get();
  }

 private:
  BatchSlot take_slot(const Batch& batch, std::uint64_t first_turn, bool wait) const;
  void put_into(Batch& batch, BatchSlot slot, const EpochKey& key) const;
  std::shared_ptr<std::byte> field_bytes(std::size_t number, std::size_t samples,
                                         const BatchSlot& slot) const;
  BatchField take_field(std::size_t number, const std::vector<std::int64_t>& samples, const EpochKey& key,
                        const BatchSlot& slot) const;
  void append_valid(Batch& batch, const EpochKey& key, const BatchSlot& slot) const;
  void draw_transforms(BatchJob& job) const;

  const DatasetState& dataset_;
  const Resolved& resolved_;
  Device* const device_;                       // may be null
  const std::vector<std::size_t> with_valid_;  // `DatasetState::fields_with_valid()`
  std::optional<SparseBatch> sparse_;          // only if the data is delivered as CSR
  // One for each of `Batch::fields`; null if it is ragged or part of a slot of the device, or without device.
  std::vector<std::unique_ptr<BufferPool>> pools_;
};

}  // namespace h5feed
