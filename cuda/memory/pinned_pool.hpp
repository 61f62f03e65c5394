// SPDX-License-Identifier: Apache-2.0
// A pool of pinned host memory that batches are assembled in and copied from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "batch/device.hpp"
#include "cuda/memory/pinned_arena.hpp"
#include "cuda/runtime/check.hpp"

namespace h5feed::gpu {

/// Equal slots in one pinned arena that is allocated once. Each slot is in one of these states:
///
/// 1. free: nobody reads or writes it.
/// 2. leased: workers fill it, or it waits for its copy. Its owner holds the lease.
/// 3. leased and copied: a copy from it is on a stream; the owner still holds the lease.
/// 4. copying: the lease is gone, but a copy is not done. The slot becomes free when a later `acquire` or
/// `lent` finds its events done. Events are polled, the oldest copy first. Only `acquire`, if all slots are
/// copying, and the destructor wait for the GPU. If several threads wait, one of them polls, at growing
/// intervals.
///
/// Thread-safe. Leases may outlive the pool; the memory then lives as long as they do.
class PinnedPool {
 public:
  /// Settings of a pool.
  struct Settings {
    /// Bytes of one slot.
    std::size_t slot_bytes = 0;
    /// Number of slots.
    std::size_t slots = 2;
    /// CUDA ordinal of the device whose NUMA node holds the arena.
    int device = 0;
    /// Threads that fault in the memory; see PinnedArena.
    unsigned touch_threads = 4;
    /// Best kind of pinning to try; see PinnedArena.
    Pinning best = Pinning::registered;
    bool poison = false;  ///< Overwrite slots that become free, so that a late reader is noticed
    /// Ask the driver before each copy whether the arena is still pinned: a pageable source would silently
    /// make the host wait.
    bool check_sources = false;
  };

  /// Requires `settings.device` to be current. Throws std::bad_alloc, CudaError.
  explicit PinnedPool(const Settings& settings);
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  /// Leases a slot, aligned to 256 bytes. If all slots are copying, blocks until one copy is done, which does
  /// not depend on the consumer; without `wait` returns null instead. If all slots are leased, takes pageable
  /// memory outside the arena, which `overflows` counts and a warning reports once. `place` is for messages.
  /// Requires `settings.device` to be current. Throws CudaError if the GPU has failed; std::bad_alloc.
  std::shared_ptr<std::byte> acquire(const CallPlace& place, bool wait = true);

  /// Enqueues a copy of the bytes at `from`, which are inside one leased slot, on `stream` of the pool's
  /// device, which must be current. The slot is not reused until the copy is done. A further copy from the
  /// slot goes to the same stream. Throws CudaError; the caller must then wait for the stream before it
  /// releases the lease.
  void copy(void* to, const std::byte* from, std::size_t bytes, cudaStream_t stream, const CallPlace& place);

  /// Returns how long threads had to wait in `acquire`, and for what.
  SlotWaits waits() const noexcept;

  /// How the arena is pinned.
  Pinning pinning() const noexcept;
  /// Bytes of the arena if it is pinned, else 0.
  std::size_t pinned_bytes() const noexcept;
  /// Bytes of one slot.
  std::size_t slot_bytes() const noexcept;
  /// Number of slots that are not free, pageable ones included. Requires `settings.device` to be current.
  /// Does not throw: a slot whose event has failed counts as lent.
  std::size_t lent() const;
  /// Number of pageable slots taken over the lifetime of the pool.
  std::uint64_t overflows() const;
  /// Returns whether the states and number of slots are consistent. For tests.
  bool check_invariants() const;

 private:
  struct State;
  class Lease;
  void check_pinned(const std::byte* from, const CallPlace& place) const;

  std::shared_ptr<State> state_;
};

}  // namespace h5feed::gpu
