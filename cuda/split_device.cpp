#include "cuda/split_device.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "cuda/handles.hpp"
#include "cuda/slot_layout.hpp"

namespace h5feed::gpu {
namespace {

// The samples [begin, end) of a batch.
struct Share {
  std::size_t begin = 0, end = 0;
  std::size_t size() const noexcept { return end - begin; }
};

Share share_of(std::size_t part, std::size_t parts, std::size_t samples) {
  return {samples * part / parts, samples * (part + 1) / parts};
}

// Returns a view of part of a tensor; it shares ownership of the bytes, which begin at `offset`.
HostTensor cut(const HostTensor& whole, const Share& share, std::size_t offset) {
  HostTensor part = whole;
  part.shape.front() = static_cast<std::int64_t>(share.size());
  if (whole.defined()) part.bytes = {whole.bytes, whole.bytes.get() + offset};
  return part;
}

template <typename T>
std::vector<T> cut(const std::vector<T>& all, const Share& share) {
  return {all.begin() + static_cast<std::ptrdiff_t>(share.begin),
          all.begin() + static_cast<std::ptrdiff_t>(share.end)};
}

class SplitDevice final : public Device {
 public:
  SplitDevice(const std::vector<int>& devices, const CudaDeviceSettings& settings)
      : format_(settings.format), pool_device_(devices.front()) {
    CudaDeviceSettings part = settings;
    part.format.rows = (format_.rows + devices.size() - 1) / devices.size();
    part.format.slot = {part.format.rows * data_bytes(), part.format.rows * target_bytes()};
    // Layout of a slot: the target of the whole batch; then, for each part, its target and transforms, and
    // its data.
    gaps_ = {devices.size(), SlotLayout::of(part.format).data_offset};
    first_data_ = aligned_for_device(format_.slot.target) + gaps_.bytes;
    CudaDeviceSettings whole = settings;
    whole.device = pool_device_;
    {
      const DeviceGuard guard(pool_device_);
      pool_ = make_batch_pool(whole, first_data_ + (gaps_.parts - 1) * gaps_.bytes + format_.slot.data);
    }
    for (const int device : devices) {
      part.device = device;
      parts_.push_back(make_cuda_device(part, pool_));
    }
  }

  BatchSlot acquire_slot(const SlotRequest& request) override {
    const DeviceGuard guard(pool_device_);
    BatchSlot slot;
    const std::shared_ptr<std::byte> memory = acquire_for(request, *pool_, pool_device_);
    slot.free = memory != nullptr;
    if (!slot.free) return slot;
    slot.data.bytes = {memory, memory.get() + first_data_};
    slot.gaps = gaps_;
    if (format_.slot.target > 0) slot.target.bytes = memory;
    return slot;
  }

  void stage(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) noexcept override {
    try {
      divide(*assembled);
    } catch (const std::bad_alloc&) {
      assembled->parts.clear();  // `deliver` tries again
      return;
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->stage(ticket, {assembled, &assembled->parts[i]});
    }
  }

  Batch deliver(std::uint64_t ticket, Batch assembled, const ProvideOutput& provide) override {
    if (assembled.parts.empty()) divide(assembled);
    return for_each_part(std::move(assembled), [&](Device& device, Batch part) {
      return device.deliver(ticket, std::move(part), provide);
    });
  }

  Batch deliver_again(Batch like, std::uint64_t nth, const ProvideOutput& provide) override {
    divide(like);
    return for_each_part(std::move(like), [&](Device& device, Batch part) {
      return device.deliver_again(std::move(part), nth, provide);
    });
  }

  std::string name() const override {
    std::string names;
    for (const auto& part : parts_) names += (names.empty() ? "" : ", ") + part->name();
    return names;
  }

  std::uint64_t lent_bytes() const override {
    std::uint64_t bytes = 0;
    for (const auto& part : parts_) bytes += part->lent_bytes();
    return bytes;
  }

  std::uint64_t allocations() const override {
    std::uint64_t count = 0;
    for (const auto& part : parts_) count += part->allocations();
    return count;
  }

  SlotWaits slot_waits() const override { return pool_->waits(); }

  DeviceMemoryUse memory() const override {
    DeviceMemoryUse use{.pinned = pool_->pinned_bytes(), .pageable_slots = pool_->overflows()};
    for (const auto& part : parts_) {
      DeviceMemoryUse of_part = part->memory();
      use.pinned += of_part.pinned;
      std::ranges::move(of_part.gpus, std::back_inserter(use.gpus));
    }
    return use;
  }

 private:
  std::size_t data_bytes() const noexcept { return format_.slot.data / format_.rows; }
  std::size_t target_bytes() const noexcept { return format_.slot.target / format_.rows; }

  // Divides a batch into parts, which take over its memory.
  void divide(Batch& batch) const {
    const std::size_t samples = batch.indices.size();
    const std::size_t deliveries = samples == 0 ? 0 : batch.transforms.size() / samples;
    batch.parts.clear();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Share share = share_of(i, parts_.size(), samples);
      Batch part;
      part.epoch = batch.epoch;
      part.number = batch.number;
      part.indices = cut(batch.indices, share);
      part.data = cut(batch.data, share, share.begin * data_bytes() + i * gaps_.bytes);
      if (format_.slot.target > 0) part.target = cut(batch.target, share, share.begin * target_bytes());
      for (std::size_t d = 0; d < deliveries; ++d) {
        std::ranges::copy(cut(batch.transforms, {d * samples + share.begin, d * samples + share.end}),
                          std::back_inserter(part.transforms));
      }
      batch.parts.push_back(std::move(part));
    }
    if (!batch.transforms.empty()) batch.transforms.resize(samples);
    batch.data.bytes.reset();
    batch.target.bytes.reset();
  }

  // Calls `deliver` for every part, even if one fails, so that all devices see every batch; then rethrows the
  // first error.
  template <typename Deliver>
  Batch for_each_part(Batch batch, const Deliver& deliver) {
    std::exception_ptr error;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      try {
        batch.parts[i] = deliver(*parts_[i], std::move(batch.parts[i]));
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
    return batch;
  }

  const DeviceFormat format_;
  const int pool_device_;
  PartGaps gaps_;
  std::size_t first_data_ = 0;  // offset of the first data in a slot
  std::shared_ptr<PinnedPool> pool_;
  std::vector<std::unique_ptr<Device>> parts_;
};

}  // namespace

std::unique_ptr<Device> make_split_device(const std::vector<int>& devices,
                                          const CudaDeviceSettings& settings) {
  return std::make_unique<SplitDevice>(devices, settings);
}

}  // namespace h5feed::gpu
