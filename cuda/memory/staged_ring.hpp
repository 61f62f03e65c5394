// SPDX-License-Identifier: Apache-2.0
// GPU buffers for batches as copied from the host, and the stream of the copies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "cuda/memory/device_memory.hpp"
#include "cuda/memory/slot_layout.hpp"
#include "cuda/memory/stream_readers.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// Slots for copied batches. A slot is either free, or leased from the moment its copy is enqueued until the
/// last kernel that reads it is enqueued. Kernels may still read a free slot: whoever leases it makes the
/// copy stream wait for them, never the host. Takes the oldest free slot first; grows if none is free.
/// Thread-safe. Leases may outlive the ring.
class StagedRing {
 public:
  /// Settings of a ring.
  struct Settings {
    int device = 0;
    SlotLayout layout;
    std::size_t slots = 2;  ///< Slots allocated at once
  };

  /// One buffer with its events.
  struct Slot {
    CountedMemory memory;  ///< Same layout as the host slots
    const std::byte* data = nullptr;
    const std::byte* target = nullptr;
    const SampleTransform* transforms = nullptr;
    const std::byte* const* rows = nullptr;  ///< Addresses of the samples of a batch that is gathered
    Event copied;                            ///< Recorded after the copy
    StreamReaders readers;                   ///< Of the current batch
  };

  class Lease;

  /// Requires `settings.device` to be current. Allocates all slots. Throws CudaError.
  StagedRing(const Settings& settings, std::shared_ptr<MemoryLedger> ledger);
  StagedRing(const StagedRing&) = delete;
  StagedRing& operator=(const StagedRing&) = delete;
  ~StagedRing();

  /// The stream of the copies.
  cudaStream_t copy_stream() const noexcept;

  /// Leases a slot and makes the copy stream wait for its previous readers. Requires the device to be
  /// current. Throws CudaError.
  Lease acquire(const CallPlace& place);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Owns a slot and returns it to the ring on destruction. Move-only; empty after a move.
class StagedRing::Lease {
 public:
  Lease() = default;
  Lease(std::shared_ptr<State> state, std::unique_ptr<Slot> slot) noexcept;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  explicit operator bool() const noexcept { return slot_ != nullptr; }
  Slot* operator->() const noexcept { return slot_.get(); }
  Slot& operator*() const noexcept { return *slot_; }

  /// Records that kernels enqueued on `stream` read the slot. Throws CudaError.
  void read_on(cudaStream_t stream, const CallPlace& place);

 private:
  std::shared_ptr<State> state_;
  std::unique_ptr<Slot> slot_;
};

}  // namespace h5feed::gpu
