// SPDX-License-Identifier: Apache-2.0
#include "batch/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/byte_units.hpp"
#include "base/mutex.hpp"
#include "batch/buffer_pool.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

// Delivers batches from recycled host buffers.
class HostDevice final : public Device {
 public:
  HostDevice(SlotBytes bytes, std::size_t expected_buffers)
      : expected_buffers_(expected_buffers),
        data_(bytes.data, expected_buffers),
        target_(bytes.target, bytes.target > 0 ? expected_buffers : 0) {}

  BatchSlot acquire_slot(const SlotRequest&) override {
    BatchSlot slot;
    slot.data.bytes = data_.acquire();
    if (target_.buffer_bytes() > 0) slot.target.bytes = target_.acquire();
    if (data_.lent() > expected_buffers_ && consumer_keeps_batches() && !said_.exchange(true)) {
      log(LogLevel::warning,
          fmt::format("the consumer keeps batches: h5feed allocates {} more for each, outside "
                      "memory_budget_bytes; copy what you keep, or release batches earlier",
                      format_bytes(data_.buffer_bytes() + target_.buffer_bytes())));
    }
    return slot;
  }

  Batch deliver(std::uint64_t, Batch assembled, const ProvideOutput& provide) override {
    if (provide) {
      throw OptionError(
          "next_into() is for a loader that delivers to a GPU; set options.device, or use next()");
    }
    note_delivered(assembled.sparse.defined() ? assembled.sparse.values.bytes : assembled.data.bytes);
    return assembled;
  }

  std::uint64_t lent_bytes() const override {
    return data_.lent() * data_.buffer_bytes() + target_.lent() * target_.buffer_bytes();
  }

  std::uint64_t allocations() const override { return data_.allocated(); }

 private:
  // Remembers a batch in the place of one that the consumer has released, if there is such a place.
  void note_delivered(const std::shared_ptr<std::byte>& bytes) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto released = std::ranges::find_if(delivered_, [](const auto& batch) { return batch.expired(); });
    if (released != delivered_.end()) *released = bytes;
  }

  // Returns whether the consumer has more batches than the one that it uses and the one that it is about to
  // release. Others may be in use by workers, for an epoch that was abandoned.
  bool consumer_keeps_batches() const H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::ranges::none_of(delivered_, [](const auto& batch) { return batch.expired(); });
  }

  const std::size_t expected_buffers_;
  BufferPool data_;
  BufferPool target_;
  std::atomic<bool> said_ = false;
  mutable Mutex mutex_;
  std::array<std::weak_ptr<std::byte>, 3> delivered_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace

Batch Device::deliver_again(Batch, std::uint64_t, const ProvideOutput&) {
  throw std::logic_error("h5feed: this device delivers a batch once");
}

std::unique_ptr<Device> make_host_device(SlotBytes bytes, std::size_t expected_buffers) {
  return std::make_unique<HostDevice>(bytes, expected_buffers);
}

}  // namespace h5feed
