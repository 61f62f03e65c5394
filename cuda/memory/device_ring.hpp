// SPDX-License-Identifier: Apache-2.0
// Buffers in GPU memory that batches are delivered in, and the stream that fills them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/memory/device_memory.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Slots of GPU memory, each with room for a batch as it is delivered. A slot is in one of these states:
///
/// 1. free: on the free list. Work that reads or writes it may still be on streams; its events say until
///    when. Who takes it makes the streams wait for them, never the host.
/// 2. filling: taken; kernels are being enqueued.
/// 3. held: part of a batch. When the batch is destroyed an event is recorded on every stream that used
///    it, and the slot is free again.
///
/// The oldest free slot is taken first, as its events are most likely done. Without a free one the ring
/// grows, counts it, and says so once. Thread-safe. Batches may outlive the ring.
class DeviceRing {
 public:
  struct Settings {
    int device = 0;
    SlotBytes bytes;        ///< of a full batch
    std::size_t slots = 3;  ///< allocated at once; more than these only for a consumer that keeps batches
    bool poison = false;    ///< overwrite what the consumer has let go, so that a late reader is noticed
  };

  struct Slot {
    CountedMemory memory;
    std::byte* data = nullptr;
    std::byte* target = nullptr;
    Event ready;                  ///< behind the kernels that write it
    std::vector<Event> consumed;  ///< the first `consumers` are behind the consumer's use
    std::size_t consumers = 0;
  };

  /// With `device` current. Throws CudaError.
  DeviceRing(const Settings& settings, std::shared_ptr<MemoryLedger> ledger);
  DeviceRing(const DeviceRing&) = delete;
  DeviceRing& operator=(const DeviceRing&) = delete;
  ~DeviceRing();

  /// The stream of the kernels.
  cudaStream_t compute_stream() const noexcept;

  /// Takes a slot. With the device current. Throws CudaError: out of memory.
  std::unique_ptr<Slot> acquire(const CallPlace& place);

  /// The batch of `place`, which owns the slot; that is filled by work in front of `slot->ready`.
  std::shared_ptr<DeviceBatch> hand_over(std::unique_ptr<Slot> slot, DeviceTensor data, DeviceTensor target,
                                         const CallPlace& place);

  /// Takes back a slot that nobody but the ring's stream has used.
  void give_back(std::unique_ptr<Slot> slot) noexcept;

  std::size_t slot_bytes() const noexcept;
  /// Slots that are not free, and slots ever allocated.
  std::size_t lent() const;
  std::uint64_t allocated() const;

 private:
  struct State;
  class HeldBatch;
  std::shared_ptr<State> state_;
};

}  // namespace h5feed::gpu
