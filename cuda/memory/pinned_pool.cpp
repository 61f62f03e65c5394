// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/pinned_pool.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <list>
#include <utility>

#include "base/byte_buffer.hpp"
#include "base/mutex.hpp"
#include "batch/fork_generation.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFB;
// First and last interval for polling the oldest copy if all slots are copying. A copy of 16 MiB takes about
// 0.3 ms; a training step that copies wait for takes 10 ms and more.
constexpr std::chrono::microseconds kFirstPollInterval(50);
constexpr std::chrono::microseconds kLastPollInterval(1000);

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

enum class SlotState : std::uint8_t { free, leased, leased_copied, copying };

struct Slot {
  std::byte* data = nullptr;
  ByteBuffer own;          // memory of a slot outside the arena
  Event begun;             // recorded before the last copy; created with the first copy
  Event done;              // recorded after the last copy
  std::uint64_t turn = 0;  // number of the last copy; older copies have smaller ones
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

  // Waits for the last copies, which may still read the memory.
  ~State() {
    const QuietDeviceGuard guard(settings.device);
    for (const Slot& slot : slots) {
      if (slot.state == SlotState::copying) ignore_error(cudaEventSynchronize(slot.done.get()));
    }
  }

  bool in_arena(const Slot& slot) const noexcept { return slot.own.data() == nullptr; }

  std::list<Slot>::iterator oldest_copy() H5FEED_REQUIRES(mutex) {
    auto oldest = slots.end();
    for (auto slot = slots.begin(); slot != slots.end(); ++slot) {
      if (slot->state != SlotState::copying) continue;
      if (oldest == slots.end() || slot->turn < oldest->turn) oldest = slot;
    }
    return oldest;
  }

  /// Frees slots whose copy is done, oldest first; stops at the first that is not done, because later ones
  /// are not worth a call. Returns the error of a failed event; its slot stays as it is.
  cudaError_t poll() H5FEED_REQUIRES(mutex) {
    for (auto slot = oldest_copy(); slot != slots.end(); slot = oldest_copy()) {
      const cudaError_t code = cudaEventQuery(slot->done.get());
      ignore_error(code == cudaErrorNotReady ? cudaSuccess : code);
      if (code != cudaSuccess) return code == cudaErrorNotReady ? cudaSuccess : code;
      release(slot);
    }
    return cudaSuccess;
  }

  /// Sleeps until a slot may be free, on the one thread that polls, and counts what it waited for.
  void sleep(MutexLock& lock, std::chrono::microseconds interval) H5FEED_REQUIRES(mutex) {
    const auto oldest = oldest_copy();
    const cudaError_t begun = cudaEventQuery(oldest->begun.get());
    ignore_error(begun == cudaErrorNotReady ? cudaSuccess : begun);
    const auto start = Clock::now();
    returned.wait_until(lock, start + interval);
    const auto slept = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    std::atomic<std::uint64_t>& counter = begun == cudaErrorNotReady ? waited_for_gpu_ns : waited_for_copy_ns;
    counter.fetch_add(static_cast<std::uint64_t>(slept.count()), std::memory_order_relaxed);
  }

  void release(std::list<Slot>::iterator slot) H5FEED_REQUIRES(mutex) {
    if (settings.poison) std::memset(slot->data, kPoison, settings.slot_bytes);
    if (in_arena(*slot)) {
      slot->state = SlotState::free;
    } else {
      slots.erase(slot);
    }
  }

  std::list<Slot>::iterator find(const std::byte* data) H5FEED_REQUIRES(mutex) {
    return std::ranges::find_if(slots, [&](const Slot& slot) { return slot.data == data; });
  }

  // Returns the leased slot that contains `from`. The list does not move its elements.
  Slot& slot_with(const std::byte* from) H5FEED_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    const std::less_equal<> up_to;
    return *std::ranges::find_if(slots, [&](const Slot& slot) {
      return up_to(slot.data, from) && !up_to(slot.data + settings.slot_bytes, from);
    });
  }

  std::byte* take(const CallPlace& place, bool wait, bool& overflows_first) H5FEED_EXCLUDES(mutex);
  std::byte* add_slot() H5FEED_REQUIRES(mutex);

  const Settings settings;
  const std::uint64_t generation = fork_generation();
  PinnedArena arena;
  mutable Mutex mutex;
  CondVar returned;
  std::list<Slot> slots;  // guarded by `mutex`; the destructor runs alone
  std::uint64_t overflows H5FEED_GUARDED_BY(mutex) = 0;
  std::uint64_t copies H5FEED_GUARDED_BY(mutex) = 0;
  bool polled H5FEED_GUARDED_BY(mutex) = false;  // true while one waiting thread polls
  std::atomic<std::uint64_t> waited_for_gpu_ns = 0;
  std::atomic<std::uint64_t> waited_for_copy_ns = 0;
};

class PinnedPool::Lease {
 public:
  Lease(std::shared_ptr<State> state, std::byte* data) : state_(std::move(state)), data_(data) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (state_->generation != fork_generation()) return;  // the slot stays leased in a child of the process
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

std::shared_ptr<std::byte> PinnedPool::acquire(const CallPlace& place, bool wait) {
  bool overflows_first = false;
  std::byte* const data = state_->take(place, wait, overflows_first);
  if (data == nullptr) return nullptr;
  if (overflows_first) {
    log(LogLevel::warning,
        fmt::format(
            "all {} pinned slots for cuda:{} are taken: a batch is assembled in pageable memory instead; "
            "its copy is slower and makes the host wait (LoaderStats::pageable_batches counts "
            "these); {}",
            state_->settings.slots, state_->settings.device, state_->settings.when_all_taken));
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

// Leases a slot; returns null if none is free and `wait` is false.
std::byte* PinnedPool::State::take(const CallPlace& place, bool wait, bool& overflows_first) {
  MutexLock lock(mutex);
  bool polling = false;  // this thread polls
  const auto stop_polling = [&]() H5FEED_REQUIRES(mutex) {
    if (!std::exchange(polling, false)) return;
    polled = false;
    returned.notify_all();
  };
  auto interval = kFirstPollInterval;
  while (true) {
    const cudaError_t error = poll();
    if (error != cudaSuccess) stop_polling();
    check(error, "cudaEventQuery", place);
    const auto free = std::ranges::find(slots, SlotState::free, &Slot::state);
    if (free != slots.end()) {
      stop_polling();
      free->state = SlotState::leased;
      return free->data;
    }
    if (oldest_copy() == slots.end()) {
      stop_polling();
      overflows_first = overflows++ == 0;
      return add_slot();
    }
    if (!wait) return nullptr;
    if (polled && !polling) {
      returned.wait(lock);
      continue;
    }
    polled = polling = true;
    sleep(lock, interval);
    interval = std::min(2 * interval, kLastPollInterval);
  }
}

std::byte* PinnedPool::State::add_slot() {
  Slot slot;
  slot.own = ByteBuffer(settings.slot_bytes);
  slot.data = slot.own.data();
  slot.state = SlotState::leased;
  slots.push_back(std::move(slot));
  return slots.back().data;
}

void PinnedPool::copy(void* to, const std::byte* from, std::size_t bytes, cudaStream_t stream,
                      const CallPlace& place) {
  Slot& slot = state_->slot_with(from);
  if (state_->settings.check_sources && state_->in_arena(slot)) check_pinned(from, place);
  // Only the owner of a leased slot uses its events. The mutex is free meanwhile: a copy from pageable memory
  // waits for the stream, and other threads must get slots then.
  if (!slot.done) {
    slot.begun = make_event(place);
    slot.done = make_event(place);
  }
  check(cudaEventRecord(slot.begun.get(), stream), "cudaEventRecord", place);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync", place);
  check(cudaEventRecord(slot.done.get(), stream), "cudaEventRecord", place);
  const MutexLock lock(state_->mutex);
  slot.state = SlotState::leased_copied;
  slot.turn = ++state_->copies;
}

void PinnedPool::check_pinned(const std::byte* from, const CallPlace& place) const {
  if (pinning() == Pinning::pageable) return;  // already reported
  cudaPointerAttributes attributes = {};
  check(cudaPointerGetAttributes(&attributes, from), "cudaPointerGetAttributes", place);
  if (attributes.type != cudaMemoryTypeHost) {
    throw DeviceError(fmt::format(
        "cuda:{}: the memory that batches are copied from is no longer pinned; does the program call "
        "cudaDeviceReset or cudaHostUnregister?",
        place.device));
  }
}

SlotWaits PinnedPool::waits() const noexcept {
  return {state_->waited_for_gpu_ns.load(std::memory_order_relaxed),
          state_->waited_for_copy_ns.load(std::memory_order_relaxed)};
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
    if (copied && !slot.done) return false;
  }
  return in_arena == state_->settings.slots;
}

}  // namespace h5feed::gpu
