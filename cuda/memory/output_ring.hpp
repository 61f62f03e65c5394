// SPDX-License-Identifier: Apache-2.0
// GPU buffers for delivered batches, and the stream that fills them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "batch/device.hpp"
#include "cuda/memory/device_memory.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Slots of GPU memory, each large enough for a full batch as delivered. Each slot is in one of these states:
///
/// 1. free: on the free list. Work that reads or writes the slot may still be on streams; its events tell
/// when that is done. Whoever takes the slot makes the streams wait for them, never the host.
/// 2. filling: taken; kernels are being enqueued.
/// 3. held: part of a batch. When the batch is destroyed, an event is recorded on every stream that used it,
/// and the slot is free again.
///
/// Takes the oldest free slot first, because its events are most likely done. If no slot is free the ring
/// grows, counts the slot, and logs that once. Thread-safe. Batches may outlive the ring.
class OutputRing {
 public:
  /// Settings of a ring.
  struct Settings {
    int device = 0;
    SlotBytes bytes;        ///< Bytes of a full batch
    std::size_t slots = 3;  ///< Slots allocated at once; more are added if the consumer keeps batches
    bool poison = false;    ///< Overwrite released slots, so that a late reader is noticed
  };

  /// One buffer with its events.
  struct Slot {
    CountedMemory memory;
    DeviceOutput output;          ///< Places of the tensors in `memory`, and the stream of the ring
    Event ready;                  ///< Recorded after the kernels that write the slot
    std::vector<Event> consumed;  ///< The first `consumers` were recorded after the consumer's use
    /// Number of events in `consumed` that the stream of the ring has not waited for. Whoever makes it wait
    /// for all of them sets 0.
    std::size_t consumers = 0;
  };

  /// Requires `settings.device` to be current. Allocates all slots. Throws CudaError.
  OutputRing(const Settings& settings, std::shared_ptr<MemoryLedger> ledger);
  OutputRing(const OutputRing&) = delete;
  OutputRing& operator=(const OutputRing&) = delete;
  ~OutputRing();

  /// The stream on which kernels fill the slots.
  cudaStream_t compute_stream() const noexcept;

  /// Takes a slot; allocates one if none is free. Requires the device to be current. Throws CudaError, as a
  /// rule out of memory.
  std::unique_ptr<Slot> acquire(const CallPlace& place);

  /// Returns the batch of `place`, which owns the slot. The caller has enqueued the work that fills the slot
  /// and recorded `slot->ready` after it.
  std::shared_ptr<DeviceBatch> hand_over(std::unique_ptr<Slot> slot, DeviceTensors tensors,
                                         const CallPlace& place);

  /// Takes back a slot that only the stream of the ring has used since `acquire`. Keeps the events that this
  /// stream has not waited for.
  void give_back(std::unique_ptr<Slot> slot) noexcept;

  /// Bytes of one slot.
  std::size_t slot_bytes() const noexcept;
  /// Number of slots that are not free.
  std::size_t lent() const;
  /// Number of slots allocated over the lifetime of the ring.
  std::uint64_t allocated() const;

 private:
  struct State;
  class HeldBatch;
  std::shared_ptr<State> state_;
};

}  // namespace h5feed::gpu
