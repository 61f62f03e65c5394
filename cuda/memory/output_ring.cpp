// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/output_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/byte_units.hpp"
#include "base/mutex.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

constexpr int kDevicePoison = 0xFB;

std::size_t bytes_of_slot(const SlotBytes& bytes) {
  std::size_t sum = aligned_for_device(bytes.data) + aligned_for_device(bytes.target);
  for (const std::size_t field : bytes.fields) sum += aligned_for_device(field);
  return sum;
}

}  // namespace

struct OutputRing::State {
  State(const Settings& from, std::shared_ptr<MemoryLedger> to)
      : settings(from),
        ledger(std::move(to)),
        slot_bytes(bytes_of_slot(from.bytes)),
        compute(make_stream(from.device)) {}

  std::unique_ptr<Slot> allocate(const CallPlace& place) const {
    auto slot = std::make_unique<Slot>();
    slot->ready = make_event(place);
    slot->memory = CountedMemory(slot_bytes, place, ledger);
    std::byte* next = slot->memory.get();
    const auto take = [&next](std::size_t bytes) {
      return std::exchange(next, next + aligned_for_device(bytes));
    };
    slot->output = {
        .data = take(settings.bytes.data), .target = take(settings.bytes.target), .stream = compute.get()};
    for (const std::size_t bytes : settings.bytes.fields) {
      if (bytes > 0) slot->output.fields.push_back(take(bytes));
    }
    return slot;
  }

  // Records an event after the work that the consumer has enqueued on each stream.
  void record_use(Slot& slot, const std::vector<GpuStream>& streams, const CallPlace& place) const {
    slot.consumers = 0;
    for (const GpuStream stream : streams) {
      cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
      check(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing", place);
      if (capture != cudaStreamCaptureStatusNone) {
        // An event recorded during a capture is part of the graph: no stream outside can wait for it.
        throw DeviceError("a batch was released while a stream that uses it is being captured");
      }
      if (slot.consumers == slot.consumed.size()) slot.consumed.push_back(make_event(place));
      check(cudaEventRecord(slot.consumed[slot.consumers].get(), stream), "cudaEventRecord", place);
      ++slot.consumers;
    }
  }

  void poison(Slot& slot, const CallPlace& place) const {
    for (std::size_t i = 0; i < slot.consumers; ++i) {
      check(cudaStreamWaitEvent(compute.get(), slot.consumed[i].get(), 0), "cudaStreamWaitEvent", place);
    }
    slot.consumers = 0;  // the stream of the next kernel has waited for them
    check(cudaMemsetAsync(slot.memory.get(), kDevicePoison, slot_bytes, compute.get()), "cudaMemsetAsync",
          place);
  }

  // Takes the slot, unless it throws std::bad_alloc.
  void put(std::unique_ptr<Slot>& slot) H5FEED_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    free.push_back(std::move(slot));
    --lent;
  }

  // Destroys a slot that cannot be used again. Freeing its memory waits for the device.
  void forget(std::unique_ptr<Slot> slot) noexcept H5FEED_EXCLUDES(mutex) {
    slot.reset();
    const MutexLock lock(mutex);
    --lent;
  }

  const Settings settings;
  const std::shared_ptr<MemoryLedger> ledger;
  const std::size_t slot_bytes;
  const Stream compute;
  mutable Mutex mutex;
  std::deque<std::unique_ptr<Slot>> free H5FEED_GUARDED_BY(mutex);  // oldest first
  std::size_t lent H5FEED_GUARDED_BY(mutex) = 0;
  std::uint64_t allocated H5FEED_GUARDED_BY(mutex) = 0;
  bool said H5FEED_GUARDED_BY(mutex) = false;
};

class OutputRing::HeldBatch final : public DeviceBatch {
 public:
  HeldBatch(std::shared_ptr<State> state, std::unique_ptr<Slot> slot, DeviceTensors tensors,
            const CallPlace& place)
      : place_(place), state_(std::move(state)), slot_(std::move(slot)), tensors_(std::move(tensors)) {}

  ~HeldBatch() override {
    try {
      const DeviceGuard guard(state_->settings.device);
      state_->record_use(*slot_, streams_, place_);
      if (state_->settings.poison) state_->poison(*slot_, place_);
      state_->put(slot_);
    } catch (...) {
      // A stream no longer exists, or the device has failed.
      if (slot_) state_->forget(std::move(slot_));
    }
  }

  int device() const noexcept override { return state_->settings.device; }
  const DeviceTensors& tensors() const noexcept override { return tensors_; }

  void use_on(GpuStream stream) override {
    const MutexLock lock(mutex_);
    const DeviceGuard guard(device());
    check(cudaStreamWaitEvent(stream, slot_->ready.get(), 0), "cudaStreamWaitEvent", place_);
    if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
  }

 private:
  const CallPlace place_;
  std::shared_ptr<State> state_;
  std::unique_ptr<Slot> slot_;
  const DeviceTensors tensors_;
  Mutex mutex_;
  std::vector<GpuStream> streams_;  // guarded by `mutex_`; the destructor runs alone
};

OutputRing::OutputRing(const Settings& settings, std::shared_ptr<MemoryLedger> ledger)
    : state_(std::make_shared<State>(settings, std::move(ledger))) {
  std::deque<std::unique_ptr<Slot>> slots;
  for (std::size_t i = 0; i < settings.slots; ++i) slots.push_back(state_->allocate({settings.device}));
  const MutexLock lock(state_->mutex);
  state_->free = std::move(slots);
  state_->allocated = settings.slots;
}

OutputRing::~OutputRing() = default;

cudaStream_t OutputRing::compute_stream() const noexcept { return state_->compute.get(); }

std::unique_ptr<OutputRing::Slot> OutputRing::acquire(const CallPlace& place) {
  bool say = false;
  {
    const MutexLock lock(state_->mutex);
    if (!state_->free.empty()) {
      std::unique_ptr<Slot> slot = std::move(state_->free.front());
      state_->free.pop_front();
      ++state_->lent;
      return slot;
    }
    say = !std::exchange(state_->said, true);
  }
  if (say) {
    log(LogLevel::warning,
        fmt::format("the consumer keeps batches: h5feed allocates {} more on cuda:{} for each; copy what you "
                    "keep, or release batches earlier",
                    format_bytes(state_->slot_bytes), state_->settings.device));
  }
  std::unique_ptr<Slot> slot = state_->allocate(place);
  const MutexLock lock(state_->mutex);
  ++state_->lent;
  ++state_->allocated;
  return slot;
}

std::shared_ptr<DeviceBatch> OutputRing::hand_over(std::unique_ptr<Slot> slot, DeviceTensors tensors,
                                                   const CallPlace& place) {
  return std::make_shared<HeldBatch>(state_, std::move(slot), std::move(tensors), place);
}

void OutputRing::give_back(std::unique_ptr<Slot> slot) noexcept {
  try {
    state_->put(slot);
  } catch (const std::bad_alloc&) {
    if (slot) state_->forget(std::move(slot));
  }
}

std::size_t OutputRing::slot_bytes() const noexcept { return state_->slot_bytes; }

std::size_t OutputRing::lent() const {
  const MutexLock lock(state_->mutex);
  return state_->lent;
}

std::uint64_t OutputRing::allocated() const {
  const MutexLock lock(state_->mutex);
  return state_->allocated;
}

}  // namespace h5feed::gpu
