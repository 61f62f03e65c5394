// SPDX-License-Identifier: Apache-2.0
#include "cuda/pinned_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <utility>

#include "cuda/memory/device_memory.hpp"
#include "cuda/memory/pinned_pool.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

class PinnedHost final : public Device {
 public:
  explicit PinnedHost(PinnedHostSettings settings)
      : settings_(std::move(settings)),
        target_offset_(aligned_for_device(std::max<std::size_t>(1, settings_.bytes.data))),
        plain_(make_host_device(settings_.bytes, settings_.buffers)) {
    if (settings_.allocate) return;
    const DeviceGuard guard(settings_.device);
    pool_.emplace(PinnedPool::Settings{.slot_bytes = target_offset_ + settings_.bytes.target,
                                       .slots = settings_.buffers,
                                       .device = settings_.device,
                                       .best = settings_.best_pinning,
                                       .when_all_taken = "copy the batches that you keep, or let them go"});
  }

  BatchSlot acquire_slot(const SlotRequest& request) override {
    if (!pool_) return allocate();
    // No slot is ever copied from by the pool, so that this neither waits nor calls CUDA.
    const auto memory = pool_->acquire({settings_.device, request.epoch, request.batch});
    BatchSlot slot;
    slot.data.bytes = memory;
    if (settings_.bytes.target > 0) slot.target.bytes = {memory, memory.get() + target_offset_};
    return slot;
  }

  Batch deliver(std::uint64_t ticket, Batch assembled, const ProvideOutput& provide) override {
    return plain_->deliver(ticket, std::move(assembled), provide);
  }

  std::uint64_t lent_bytes() const override {
    return plain_->lent_bytes() + (pool_ ? pool_->lent() * pool_->slot_bytes() : 0);
  }

  std::uint64_t allocations() const override {
    return plain_->allocations() + (pool_ ? settings_.buffers + pool_->overflows() : allocated_.load());
  }

  DeviceMemoryUse memory() const override {
    if (!pool_) return {.pageable_slots = pageable_};
    return {.pinned = pool_->pinned_bytes(), .pageable_slots = pool_->overflows()};
  }

 private:
  // Returns memory of the program's allocator; pageable memory from its first failure on.
  BatchSlot allocate() {
    if (!refused_) {
      try {
        BatchSlot slot;
        slot.data.bytes = settings_.allocate(settings_.bytes.data);
        if (settings_.bytes.target > 0) slot.target.bytes = settings_.allocate(settings_.bytes.target);
        ++allocated_;
        return slot;
      } catch (const std::exception& error) {
        if (!refused_.exchange(true)) {
          log(LogLevel::warning,
              fmt::format(
                  "pin_memory: batches are in pageable memory from now on, as no pinned memory can be "
                  "allocated: {}",
                  error.what()));
        }
      }
    }
    ++pageable_;
    return plain_->acquire_slot({});
  }

  const PinnedHostSettings settings_;
  const std::size_t target_offset_;      // of the targets within a slot
  const std::unique_ptr<Device> plain_;  // delivers, and has the pageable memory of the last resort
  std::optional<PinnedPool> pool_;       // unset with an allocator
  std::atomic<bool> refused_ = false;
  std::atomic<std::uint64_t> allocated_ = 0;
  std::atomic<std::uint64_t> pageable_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_pinned_host(PinnedHostSettings settings) {
  return std::make_unique<PinnedHost>(std::move(settings));
}

}  // namespace h5feed::gpu
