#include "cuda/split_device.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "cuda/handles.hpp"

namespace h5feed::gpu {
namespace {

// Samples [begin, end) of a batch.
struct Share {
  std::size_t begin = 0, end = 0;
  std::size_t size() const noexcept { return end - begin; }
};

Share share_of(std::size_t part, std::size_t parts, std::size_t samples) {
  return {samples * part / parts, samples * (part + 1) / parts};
}

// The same bytes from a sample on, with their ownership.
HostTensor cut(const HostTensor& whole, const Share& share, std::size_t sample_bytes) {
  HostTensor part = whole;
  part.shape.front() = static_cast<std::int64_t>(share.size());
  if (whole.defined()) part.bytes = {whole.bytes, whole.bytes.get() + share.begin * sample_bytes};
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
      : format_(settings.format) {
    CudaDeviceSettings whole = settings;
    whole.device = devices.front();
    {
      const DeviceGuard guard(whole.device);
      pool_ = make_batch_pool(whole);
    }
    pool_device_ = whole.device;
    CudaDeviceSettings part = settings;
    part.format.rows = (format_.rows + devices.size() - 1) / devices.size();
    part.format.slot = {part.format.rows * data_bytes(), part.format.rows * target_bytes()};
    for (const int device : devices) {
      part.device = device;
      parts_.push_back(make_cuda_device(part, pool_));
    }
  }

  BatchSlot acquire_slot() override {
    const DeviceGuard guard(pool_device_);
    return batch_slot(*pool_, format_.slot);
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

  DeviceMemoryUse memory() const override {
    DeviceMemoryUse use{.pinned = pool_->pinned_bytes()};
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

  // The parts take over the batch's memory.
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
      part.data = cut(batch.data, share, data_bytes());
      if (format_.slot.target > 0) part.target = cut(batch.target, share, target_bytes());
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

  // All devices hear of every batch, also behind one that failed there.
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
  int pool_device_ = 0;
  std::shared_ptr<PinnedPool> pool_;
  std::vector<std::unique_ptr<Device>> parts_;
};

}  // namespace

std::unique_ptr<Device> make_split_device(const std::vector<int>& devices,
                                          const CudaDeviceSettings& settings) {
  return std::make_unique<SplitDevice>(devices, settings);
}

}  // namespace h5feed::gpu
