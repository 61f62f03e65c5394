// SPDX-License-Identifier: Apache-2.0
// Host memory that batches are assembled in and copied from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/memory/pinned_arena.hpp"
#include "cuda/runtime/check.hpp"
#include "h5feed/device.hpp"

namespace h5feed::gpu {

/// Equal slots in one pinned arena, allocated once. A slot is in one of these states:
///
/// 1. free: nobody writes or reads it.
/// 2. leased: workers fill it, or it waits for its copy. Its owner holds the lease.
/// 3. leased and copied: a copy from it is on a stream; the owner has not let go yet.
/// 4. copying: the lease is gone, an event behind a copy is not done. It becomes free when a later
///    `acquire` or `lent` finds all done: events are polled, the oldest copy first; no call waits for the
///    GPU but `acquire` when all slots are copying, and the destructor. Of several threads that wait one
///    polls, less and less often.
///
/// Thread-safe. Leases may outlive the pool; the memory then lives as long as they do.
class PinnedPool {
 public:
  struct Settings {
    std::size_t slot_bytes = 0;
    std::size_t slots = 2;
    int device = 0;
    unsigned touch_threads = 4;
    Pinning best = Pinning::registered;
    bool poison = false;  ///< overwrite slots that become free, so that a late reader is noticed
    /// Ask the driver before each copy whether the arena is pinned as it should be: a pageable source would
    /// make the host wait, silently.
    bool check_sources = false;
  };

  /// With `device` current. Throws as PinnedArena.
  explicit PinnedPool(const Settings& settings);
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  /// A free slot, aligned to 256 bytes. Where all are copying it waits, which ends without the consumer's
  /// doing, or returns null if not to `wait`. When all are leased it takes pageable memory beside the arena
  /// instead, which is counted by `overflows` and logged once. `place` is for messages. With `device`
  /// current. Throws CudaError when the GPU has failed; std::bad_alloc.
  std::shared_ptr<std::byte> acquire(const CallPlace& place, bool wait = true);

  /// Puts one copy of bytes from `from` on, within a slot, onto `stream` of the pool's device, which is
  /// current: that slot stays as it is until the copy is done. A further copy from the slot goes onto the
  /// same stream. Throws CudaError; the caller then makes sure that the copy is over before it lets the lease
  /// go.
  void copy(void* to, const std::byte* from, std::size_t bytes, cudaStream_t stream, const CallPlace& place);

  /// How long threads had to wait in `acquire`, and for what.
  SlotWaits waits() const noexcept;

  Pinning pinning() const noexcept;
  /// Of the arena, where it is pinned.
  std::size_t pinned_bytes() const noexcept;
  std::size_t slot_bytes() const noexcept;
  /// Slots that are not free, with those beside the arena. With `device` current. Does not throw: slots
  /// whose event has failed count as lent.
  std::size_t lent() const;
  /// Slots that had to be taken beside the arena, over the pool's life.
  std::uint64_t overflows() const;
  /// Numbers and states of slots agree. For tests.
  bool check_invariants() const;

 private:
  struct State;
  class Lease;
  void check_pinned(const std::byte* from, const CallPlace& place) const;

  std::shared_ptr<State> state_;
};

}  // namespace h5feed::gpu
