#include "cuda/pinned_pool.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/mutex.hpp"
#include "cuda/handles.hpp"

namespace h5feed::gpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFB;
// Between two looks at the events when all slots are copying. A copy of 16 MiB takes about 0.3 ms.
constexpr std::chrono::microseconds kPollInterval(50);

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

enum class SlotState : std::uint8_t { free, leased, leased_copied, copying };

// Behind a copy where `pending`. Events belong to a device.
struct CopyEvent {
  int device = 0;
  Event event;
  bool pending = false;
};

struct Slot {
  std::byte* data = nullptr;
  ByteBuffer own;  // of a slot beside the arena
  std::vector<CopyEvent> copied;
  SlotState state = SlotState::free;
};

}  // namespace

struct PinnedPool::State {
  explicit State(const Settings& from)
      : settings(from),
        arena(aligned(from.slot_bytes) * from.slots, from.device, from.touch_threads, from.best) {
    for (std::size_t i = 0; i < from.slots; ++i) {
      Slot& slot = slots.emplace_back();
      slot.data = arena.data() + i * aligned(from.slot_bytes);
    }
  }

  // The last copies may still read the memory that is about to go.
  ~State() {
    for (const Slot& slot : slots) {
      if (slot.state != SlotState::copying) continue;
      for (const CopyEvent& copy : slot.copied) {
        if (!copy.pending) continue;
        const QuietDeviceGuard guard(copy.device);
        ignore_error(cudaEventSynchronize(copy.event.get()));
      }
    }
  }

  bool in_arena(const Slot& slot) const noexcept { return slot.own.data() == nullptr; }

  /// cudaSuccess when all copies are done.
  static cudaError_t query(const Slot& slot) {
    for (const CopyEvent& copy : slot.copied) {
      const cudaError_t code = copy.pending ? cudaEventQuery(copy.event.get()) : cudaSuccess;
      if (code != cudaSuccess) return code;
    }
    return cudaSuccess;
  }

  /// Frees slots whose copy is done; the first error of an event, whose slot stays as it is.
  cudaError_t poll() H5FEED_REQUIRES(mutex) {
    cudaError_t error = cudaSuccess;
    for (auto slot = slots.begin(); slot != slots.end();) {
      const auto here = slot++;
      if (here->state != SlotState::copying) continue;
      const cudaError_t code = query(*here);
      if (code == cudaSuccess) {
        release(here);
      } else if (code != cudaErrorNotReady) {
        ignore_error(code);
        if (error == cudaSuccess) error = code;
      }
    }
    return error;
  }

  void release(std::list<Slot>::iterator slot) H5FEED_REQUIRES(mutex) {
    if (settings.poison) std::memset(slot->data, kPoison, settings.slot_bytes);
    if (in_arena(*slot)) {
      for (CopyEvent& copy : slot->copied) copy.pending = false;
      slot->state = SlotState::free;
    } else {
      slots.erase(slot);
    }
  }

  std::list<Slot>::iterator find(const std::byte* data) H5FEED_REQUIRES(mutex) {
    return std::ranges::find_if(slots, [&](const Slot& slot) { return slot.data == data; });
  }

  const Settings settings;
  PinnedArena arena;
  mutable Mutex mutex;
  CondVar returned;
  std::list<Slot> slots;  // guarded by `mutex`; the destructor runs alone
  std::uint64_t overflows H5FEED_GUARDED_BY(mutex) = 0;
};

class PinnedPool::Lease {
 public:
  Lease(std::shared_ptr<State> state, std::byte* data) : state_(std::move(state)), data_(data) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    const MutexLock lock(state_->mutex);
    const auto slot = state_->find(data_);
    if (slot->state == SlotState::leased_copied) {
      slot->state = SlotState::copying;
    } else {
      state_->release(slot);
    }
    state_->returned.notify_one();
  }

  std::byte* data() const noexcept { return data_; }

 private:
  std::shared_ptr<State> state_;
  std::byte* data_;
};

PinnedPool::PinnedPool(const Settings& settings) : state_(std::make_shared<State>(settings)) {}

PinnedPool::~PinnedPool() = default;

std::shared_ptr<std::byte> PinnedPool::acquire() {
  std::byte* data = nullptr;
  {
    MutexLock lock(state_->mutex);
    while (data == nullptr) {
      const cudaError_t error = state_->poll();
      check(error, "cudaEventQuery", {state_->settings.device});
      const auto free = std::ranges::find(state_->slots, SlotState::free, &Slot::state);
      if (free != state_->slots.end()) {
        free->state = SlotState::leased;
        data = free->data;
      } else if (std::ranges::find(state_->slots, SlotState::copying, &Slot::state) != state_->slots.end()) {
        state_->returned.wait_until(lock, std::chrono::steady_clock::now() + kPollInterval);
      } else {
        Slot slot;
        slot.own = ByteBuffer(state_->settings.slot_bytes);
        slot.data = data = slot.own.data();
        slot.state = SlotState::leased;
        state_->slots.push_back(std::move(slot));
        ++state_->overflows;
      }
    }
  }
  try {
    auto lease = std::make_shared<Lease>(state_, data);
    return {std::move(lease), data};
  } catch (...) {
    const MutexLock lock(state_->mutex);
    state_->release(state_->find(data));
    throw;
  }
}

void PinnedPool::copied_on(cudaStream_t stream, const std::byte* from, const CallPlace& place) {
  const MutexLock lock(state_->mutex);
  const std::less_equal<> up_to;
  const auto found = std::ranges::find_if(state_->slots, [&](const Slot& slot) {
    return up_to(slot.data, from) && !up_to(slot.data + state_->settings.slot_bytes, from);
  });
  auto copy = std::ranges::find_if(
      found->copied, [&](const CopyEvent& known) { return known.device == place.device && !known.pending; });
  if (copy == found->copied.end()) {
    found->copied.push_back({place.device, make_event(place.device)});
    copy = std::prev(found->copied.end());
  }
  check(cudaEventRecord(copy->event.get(), stream), "cudaEventRecord", place);
  copy->pending = true;
  found->state = SlotState::leased_copied;
}

Pinning PinnedPool::pinning() const noexcept { return state_->arena.pinning(); }

std::size_t PinnedPool::pinned_bytes() const noexcept {
  return pinning() == Pinning::pageable ? 0 : state_->arena.bytes();
}

std::size_t PinnedPool::slot_bytes() const noexcept { return state_->settings.slot_bytes; }

std::size_t PinnedPool::lent() const {
  const MutexLock lock(state_->mutex);
  static_cast<void>(state_->poll());
  return static_cast<std::size_t>(
      std::ranges::count_if(state_->slots, [](const Slot& slot) { return slot.state != SlotState::free; }));
}

std::uint64_t PinnedPool::overflows() const {
  const MutexLock lock(state_->mutex);
  return state_->overflows;
}

bool PinnedPool::check_invariants() const {
  const MutexLock lock(state_->mutex);
  std::size_t in_arena = 0;
  for (const Slot& slot : state_->slots) {
    if (state_->in_arena(slot)) ++in_arena;
    if (!state_->in_arena(slot) && slot.state == SlotState::free) return false;
    const bool copied = slot.state == SlotState::leased_copied || slot.state == SlotState::copying;
    if (copied != std::ranges::any_of(slot.copied, &CopyEvent::pending)) return false;
  }
  return in_arena == state_->settings.slots;
}

}  // namespace h5feed::gpu
