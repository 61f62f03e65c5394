// SPDX-License-Identifier: Apache-2.0
// Buffers in GPU memory that batches are copied to, as they lie in host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/memory/device_memory.hpp"
#include "cuda/memory/slot_layout.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// Slots for copied batches, and the stream of the copies. A slot is free, or leased from the moment its copy
/// is enqueued until the last kernel that reads it is. A free slot may still be read: who leases it makes the
/// copy wait for its readers, never the host. The oldest free slot is taken first; without a free one the
/// ring grows. Thread-safe. Leases may outlive the ring.
class StagedRing {
 public:
  struct Settings {
    int device = 0;
    SlotLayout layout;
    std::size_t slots = 2;  ///< allocated at once
  };

  struct Slot {
    CountedMemory memory;  ///< laid out as the host's slots
    const std::byte* data = nullptr;
    const std::byte* target = nullptr;
    const SampleTransform* transforms = nullptr;
    Event copied;  ///< behind the copy

    /// Kernels on `stream` that read the slot are behind its event.
    struct Reader {
      cudaStream_t stream = nullptr;
      Event done;
    };
    std::vector<Reader> readers;  ///< the first `num_readers` are of the present batch
    std::size_t num_readers = 0;
  };

  class Lease;

  /// With `device` current. Throws CudaError.
  StagedRing(const Settings& settings, std::shared_ptr<MemoryLedger> ledger);
  StagedRing(const StagedRing&) = delete;
  StagedRing& operator=(const StagedRing&) = delete;
  ~StagedRing();

  cudaStream_t copy_stream() const noexcept;

  /// A slot whose readers the copy stream waits for. With the device current. Throws CudaError.
  Lease acquire(const CallPlace& place);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Owns a slot; gives it back on destruction. Move-only.
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

  /// Kernels that read the slot were enqueued on `stream`. Throws CudaError.
  void read_on(cudaStream_t stream, const CallPlace& place);

 private:
  std::shared_ptr<State> state_;
  std::unique_ptr<Slot> slot_;
};

}  // namespace h5feed::gpu
