// SPDX-License-Identifier: Apache-2.0
// The memory that a batch is assembled in, and what is to be done to its samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "batch/buffer_pool.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/resolve/placement.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/device.hpp"

namespace h5feed {

/// Prepares the outputs of jobs. Thread-safe.
class BatchOutputs {
 public:
  /// What it works with. All outlive it.
  struct Parts {
    const DatasetState& dataset;
    const ResolvedOptions& options;
    const DeliveryFormat& format;
    const Placement& placement;
    Device& device;
  };
  /// Throws std::bad_alloc.
  explicit BatchOutputs(const Parts& parts);

  /// Gives a job whose samples are known its memory, shapes and crops, and its echoes theirs; false, with
  /// nothing done, where it would have to wait for memory and `wait` is not set. Throws std::bad_alloc,
  /// DeviceError.
  bool prepare(BatchJob& job, bool wait) const;

  /// Where a field of a batch is assembled.
  static std::byte* bytes_of(const Batch& batch, std::size_t field) noexcept {
    if (field == kData) return batch.data.bytes.get();
    if (field == kTarget) return batch.target.bytes.get();
    return batch.fields[field - kFirstNamed].values.bytes.get();
  }

 private:
  BatchSlot take_slot(const Batch& batch, bool wait) const;
  void put_into(Batch& batch, BatchSlot slot) const;
  BatchField take_field(std::size_t number, const std::vector<std::int64_t>& samples) const;
  void draw_transforms(BatchJob& job) const;

  const Parts parts_;
  std::vector<std::unique_ptr<BufferPool>> pools_;  // of named fields; null for ragged ones
};

}  // namespace h5feed
