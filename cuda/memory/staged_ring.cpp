// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/staged_ring.hpp"

#include <deque>
#include <new>
#include <utility>

#include "base/mutex.hpp"

namespace h5feed::gpu {

struct StagedRing::State {
  State(const Settings& from, std::shared_ptr<MemoryLedger> to)
      : settings(from), ledger(std::move(to)), copy(make_stream(from.device)) {
    for (std::size_t i = 0; i < from.slots; ++i) free.push_back(allocate({from.device}));
  }

  std::unique_ptr<Slot> allocate(const CallPlace& place) const {
    const SlotLayout& layout = settings.layout;
    auto slot = std::make_unique<Slot>();
    slot->copied = make_event(place);
    slot->memory = CountedMemory(layout.bytes, place, ledger);
    slot->target = slot->memory.get();
    slot->transforms = reinterpret_cast<const SampleTransform*>(slot->target + layout.transforms_offset);
    slot->rows = reinterpret_cast<const std::byte* const*>(slot->target + layout.rows_offset);
    slot->data = slot->target + layout.data_offset;
    return slot;
  }

  void put(std::unique_ptr<Slot> slot) noexcept H5FEED_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    try {
      free.push_back(std::move(slot));
    } catch (const std::bad_alloc&) {
      // The slot is destroyed, which waits for the device.
    }
  }

  const Settings settings;
  const std::shared_ptr<MemoryLedger> ledger;
  const Stream copy;
  Mutex mutex;
  std::deque<std::unique_ptr<Slot>>
      free;  // oldest first; guarded by `mutex` but in constructor and destructor
};

StagedRing::StagedRing(const Settings& settings, std::shared_ptr<MemoryLedger> ledger)
    : state_(std::make_shared<State>(settings, std::move(ledger))) {}

StagedRing::~StagedRing() = default;

cudaStream_t StagedRing::copy_stream() const noexcept { return state_->copy.get(); }

StagedRing::Lease StagedRing::acquire(const CallPlace& place) {
  std::unique_ptr<Slot> slot;
  {
    const MutexLock lock(state_->mutex);
    if (!state_->free.empty()) {
      slot = std::move(state_->free.front());
      state_->free.pop_front();
    }
  }
  if (!slot) slot = state_->allocate(place);
  Lease lease(state_, std::move(slot));
  // The copy overwrites memory that kernels of the slot's previous batch may still read.
  lease->readers.wait(copy_stream(), place);
  return lease;
}

StagedRing::Lease::Lease(std::shared_ptr<State> state, std::unique_ptr<Slot> slot) noexcept
    : state_(std::move(state)), slot_(std::move(slot)) {}

StagedRing::Lease::Lease(Lease&& other) noexcept = default;

StagedRing::Lease& StagedRing::Lease::operator=(Lease&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(slot_, other.slot_);
  return *this;
}

StagedRing::Lease::~Lease() {
  if (slot_) state_->put(std::move(slot_));
}

void StagedRing::Lease::read_on(cudaStream_t stream, const CallPlace& place) {
  slot_->readers.read_on(stream, place);
}

}  // namespace h5feed::gpu
