// SPDX-License-Identifier: Apache-2.0
#include "batch/device.hpp"

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>
#include <utility>

#include "base/byte_units.hpp"
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
    if (data_.lent() > expected_buffers_ && !said_.exchange(true)) {
      log(LogLevel::warning,
          fmt::format("the consumer keeps batches: h5feed allocates {} more for each, outside "
                      "memory_budget_bytes; copy what you keep, or let batches go",
                      format_bytes(data_.buffer_bytes() + target_.buffer_bytes())));
    }
    return slot;
  }

  Batch deliver(std::uint64_t, Batch assembled, const ProvideOutput& provide) override {
    if (provide) {
      throw OptionError(
          "next_into() is for a loader that delivers to a GPU; set options.device, or use next()");
    }
    return assembled;
  }

  std::uint64_t lent_bytes() const override {
    return data_.lent() * data_.buffer_bytes() + target_.lent() * target_.buffer_bytes();
  }

  std::uint64_t allocations() const override { return data_.allocated(); }

 private:
  const std::size_t expected_buffers_;
  BufferPool data_;
  BufferPool target_;
  std::atomic<bool> said_ = false;
};

}  // namespace

Batch Device::deliver_again(Batch, std::uint64_t, const ProvideOutput&) {
  throw std::logic_error("h5feed: this device delivers a batch once");
}

std::unique_ptr<Device> make_host_device(SlotBytes bytes, std::size_t expected_buffers) {
  return std::make_unique<HostDevice>(bytes, expected_buffers);
}

}  // namespace h5feed
