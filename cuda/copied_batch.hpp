// SPDX-License-Identifier: Apache-2.0
// A batch on its way to a GPU, before it is delivered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/sample_place.hpp"
#include "cuda/memory/output_ring.hpp"
#include "cuda/memory/row_store.hpp"
#include "cuda/memory/staged_ring.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {

/// A batch that is not delivered yet: with `staged` it was copied, else it is being assembled.
class CopiedBatch final : public DeviceBatch {
 public:
  /// Facts about the samples of a batch that are fixed when the batch is planned.
  struct Samples {
    /// Rows of the samples that were on the device when the batch was planned; null if none was. A row is not
    /// replaced before the last batch with this object is destroyed.
    std::shared_ptr<RowStore::Rows> kept;
    std::uint64_t end_turn = 0;  ///< One past the turns of the samples; see Foresee
  };

  CopiedBatch(int device, std::shared_ptr<OutputRing> ring, Samples of_batch)
      : samples(std::move(of_batch)), device_(device), ring_(std::move(ring)) {}
  ~CopiedBatch() override {
    if (output) ring_->give_back(std::move(output));
  }

  int device() const noexcept override { return device_; }
  const DeviceTensors& tensors() const noexcept override { return none_; }
  void use_on(GpuStream) override { throw DeviceError("the batch is not delivered yet"); }

  const Samples samples;
  StagedRing::Lease staged;
  /// The batch converted ahead of its delivery; null if it was not.
  std::unique_ptr<OutputRing::Slot> output;

 private:
  const int device_;
  const std::shared_ptr<OutputRing> ring_;
  const DeviceTensors none_ = {};
};

/// Returns whether the batch was copied to the device.
inline bool is_copied(const Batch& batch) noexcept {
  return batch.gpu && static_cast<const CopiedBatch&>(*batch.gpu).staged;
}

/// Returns what is known of the samples of a batch that is not delivered.
inline CopiedBatch::Samples samples_of(const Batch& batch) noexcept {
  return batch.gpu ? static_cast<const CopiedBatch&>(*batch.gpu).samples : CopiedBatch::Samples();
}

/// Returns the number of samples of a batch that were on the device; `kept` may be null.
inline std::size_t num_kept(const RowStore::Rows* kept) noexcept {
  if (kept == nullptr) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(*kept, [](const KeptRow& row) { return static_cast<bool>(row); }));
}

/// Returns the number of samples of a copied batch whose kernel reads them where they stayed on the device;
/// `kept` may be null.
inline std::size_t num_entered(const RowStore::Rows* kept) noexcept {
  if (kept == nullptr) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(*kept, [](const KeptRow& row) { return row.entered(); }));
}

/// Returns the place in the slot of each sample of a batch: those that are not on the device follow each
/// other.
inline std::vector<std::uint32_t> places_of(const RowStore::Rows& kept) {
  std::vector<std::uint32_t> places;
  places.reserve(kept.size());
  std::uint32_t next = 0;
  for (const KeptRow& row : kept) places.push_back(row ? kOnDevice : next++);
  return places;
}

/// The samples of a batch, in its order.
struct SplitSamples {
  std::vector<std::int64_t> copied;  ///< Samples that are copied with the batch
  std::vector<std::int64_t> served;  ///< Samples that were on the device when the batch was planned
};

/// Returns the samples of a batch; `kept` may be null.
inline SplitSamples split(const std::vector<std::int64_t>& samples, const RowStore::Rows* kept) {
  if (kept == nullptr) return {.copied = samples, .served = {}};
  SplitSamples split;
  for (std::size_t i = 0; i < samples.size(); ++i)
    ((*kept)[i] ? split.served : split.copied).push_back(samples[i]);
  return split;
}

/// Memory of the samples of a batch, contiguous, `sample_bytes` each.
struct SampleMemory {
  const std::byte* device = nullptr;  ///< Place of the first sample on the device, after the copy
  std::byte* host = nullptr;  ///< Place of the first sample in the host slot; room for all of the batch
  std::size_t sample_bytes = 0;
};

/// Writes the address of each sample to `table`: of its kept row, else of the next of the samples that follow
/// each other. Appends kept rows that were saved to host memory to the latter. Returns the number of samples
/// that follow each other then.
inline std::size_t write_addresses(RowStore::Rows& kept, const SampleMemory& memory, std::byte* table) {
  const std::size_t bytes = memory.sample_bytes;
  std::size_t end = kept.size() - num_kept(&kept), next = 0;
  for (KeptRow& row : kept) {
    const std::byte* address = nullptr;
    if (!row) {
      address = memory.device + next++ * bytes;
    } else if (const RowBlock::Location at = row.enter(); at.on_device != nullptr) {
      address = at.on_device;
    } else {
      std::memcpy(memory.host + end * bytes, at.saved, bytes);
      address = memory.device + end++ * bytes;
    }
    std::memcpy(table, &address, sizeof(address));
    table += sizeof(address);
  }
  return end;
}

}  // namespace h5feed::gpu
