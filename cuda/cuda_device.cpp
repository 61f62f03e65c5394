#include "cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cuda/check.hpp"
#include "cuda/device_ring.hpp"
#include "cuda/handles.hpp"
#include "cuda/normalize.hpp"
#include "cuda/pinned_pool.hpp"

namespace h5feed::gpu {
namespace {

constexpr std::size_t kTargetAlignment = 64;  // of the target behind the data, in a host slot

std::size_t target_offset(const SlotBytes& bytes) {
  return (bytes.data + kTargetAlignment - 1) / kTargetAlignment * kTargetAlignment;
}

std::size_t bytes_of(const HostTensor& tensor) {
  return tensor.defined() ? static_cast<std::size_t>(tensor.elements()) * size_of(tensor.dtype) : 0;
}

SlotBytes delivered_bytes(const DeviceFormat& format) {
  return {format.slot.data / size_of(format.from) * size_of(format.to),
          format.slot.target / size_of(format.target_from) * size_of(format.target_to)};
}

// Strides of a dense tensor; with the channels last of all where `channels_last` and there are some.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape, bool channels_last) {
  std::vector<std::int64_t> strides(shape.size());
  std::vector<std::size_t> order(shape.size());  // outermost first
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // (B,C,H,W), or (C,H,W) of a single sample.
  if (channels_last && shape.size() >= 3) {
    const auto channel = order.begin() + static_cast<std::ptrdiff_t>(shape.size() - 3);
    std::rotate(channel, channel + 1, order.end());
  }
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
  }
  return strides;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaDeviceSettings& settings)
      : settings_(settings),
        guard_at_start_(std::in_place, settings.device),
        pinned_({.slot_bytes = target_offset(settings.format.slot) + settings.format.slot.target,
                 .slots = settings.capacity.host_slots,
                 .device = settings.device,
                 .touch_threads = settings.touch_threads,
                 .best = settings.best_pinning,
                 .poison = settings.poison}),
        // Beside the batches on their way, one that the consumer works with and one it has just let go.
        ring_({.device = settings.device,
               .bytes = {settings.format.slot, delivered_bytes(settings.format)},
               .slots = settings.capacity.depth + 2,
               .poison = settings.poison}) {
    upload_coefficients();
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, settings.device),
          "cudaDeviceGetAttribute", {settings.device});
    guard_at_start_.reset();
  }

  BatchSlot acquire_slot() override {
    refuse_if_lost();
    try {
      const DeviceGuard guard(settings_.device);
      const std::shared_ptr<std::byte> memory = pinned_.acquire();
      BatchSlot slot;
      slot.data.bytes = memory;
      if (settings_.format.slot.target > 0) {
        slot.target.bytes = {memory, memory.get() + target_offset(settings_.format.slot)};
      }
      return slot;
    } catch (const CudaError& error) {
      note_if_lost(error);
      throw;
    }
  }

  void stage(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) noexcept override {
    try {
      {
        const MutexLock lock(mutex_);
        if (ticket >= next_ticket_ + settings_.capacity.depth) {
          parked_[ticket] = assembled;
          return;
        }
      }
      transfer(*assembled);
    } catch (...) {
      keep_error(ticket, std::current_exception());
    }
  }

  Batch deliver(std::uint64_t ticket, Batch assembled) override {
    std::exception_ptr error;
    std::vector<std::pair<std::uint64_t, std::shared_ptr<Batch>>> due;
    {
      const MutexLock lock(mutex_);
      next_ticket_ = std::max(next_ticket_, ticket + 1);
      parked_.erase(ticket);
      const auto failed = errors_.find(ticket);
      if (failed != errors_.end()) error = failed->second;
      errors_.erase(errors_.begin(), errors_.upper_bound(ticket));
      while (!parked_.empty() && parked_.begin()->first < next_ticket_ + settings_.capacity.depth) {
        due.emplace_back(parked_.begin()->first, parked_.begin()->second.lock());
        parked_.erase(parked_.begin());
      }
    }
    if (!error && !assembled.gpu) transfer(assembled);
    for (const auto& [due_ticket, batch] : due) {
      if (batch) stage(due_ticket, batch);
    }
    if (error) std::rethrow_exception(error);
    return assembled;
  }

  std::uint64_t lent_bytes() const override { return ring_.lent() * ring_.slot_bytes(); }
  std::uint64_t allocations() const override { return ring_.allocated(); }

 private:
  void upload_coefficients() {
    const DeviceFormat& format = settings_.format;
    if (!format.normalize) return;
    const std::vector<std::byte> bytes = normalize_coefficients(*format.normalize, format.from, format.to);
    coefficients_ = make_device_memory(bytes.size(), settings_.device);
    // The one wait for the GPU, before there is any batch: the bytes end with this function.
    check(cudaMemcpyAsync(coefficients_.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                          ring_.copy_stream()),
          "cudaMemcpyAsync", {settings_.device});
    check(cudaStreamSynchronize(ring_.copy_stream()), "cudaStreamSynchronize", {settings_.device});
  }

  // Puts the way of one batch onto the streams, and lets its host memory go.
  void transfer(Batch& batch) {
    refuse_if_lost();
    try {
      const MutexLock lock(enqueue_mutex_);
      const DeviceGuard guard(settings_.device);
      std::unique_ptr<DeviceRing::Slot> slot = ring_.acquire();
      try {
        enqueue(batch, *slot);
        const DeviceFormat& format = settings_.format;
        DeviceTensor data = tensor(batch.data, slot->data, format.to, format.out_channels_last);
        DeviceTensor target = tensor(batch.target, slot->target, format.target_to, false);
        batch.gpu = ring_.hand_over(std::move(slot), std::move(data), std::move(target));
      } catch (...) {
        // Whatever of it is on the streams must be over before host or device memory is used again.
        ignore_error(cudaStreamSynchronize(ring_.copy_stream()));
        ignore_error(cudaStreamSynchronize(ring_.compute_stream()));
        if (slot) ring_.give_back(std::move(slot));
        throw;
      }
      batch.data.bytes.reset();
      batch.target.bytes.reset();
    } catch (const CudaError& error) {
      note_if_lost(error);
      throw;
    }
  }

  void enqueue(const Batch& batch, DeviceRing::Slot& slot) {
    const CallPlace place = CallPlace::of(settings_.device, batch);
    const cudaStream_t copy = ring_.copy_stream();
    const cudaStream_t compute = ring_.compute_stream();
    // The copy overwrites what the kernel of the slot's last batch read.
    if (slot.used) check(cudaStreamWaitEvent(copy, slot.ready.get(), 0), "cudaStreamWaitEvent", place);
    copy_in(batch.data, slot.staged_data, copy, place);
    if (batch.target.defined()) copy_in(batch.target, slot.staged_target, copy, place);
    pinned_.copied_on(copy, batch.data.bytes.get(), place);
    check(cudaEventRecord(slot.copied.get(), copy), "cudaEventRecord", place);

    check(cudaStreamWaitEvent(compute, slot.copied.get(), 0), "cudaStreamWaitEvent", place);
    // The kernel overwrites what the consumer of the slot's last batch read.
    for (std::size_t i = 0; i < slot.consumers; ++i) {
      check(cudaStreamWaitEvent(compute, slot.consumed[i].get(), 0), "cudaStreamWaitEvent", place);
    }
    convert_data(batch, slot, compute, place);
    if (batch.target.defined()) convert_target(batch, slot, compute, place);
    check(cudaEventRecord(slot.ready.get(), compute), "cudaEventRecord", place);
    slot.used = true;
  }

  static void copy_in(const HostTensor& from, std::byte* to, cudaStream_t stream, const CallPlace& place) {
    check(cudaMemcpyAsync(to, from.bytes.get(), bytes_of(from), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync", place);
  }

  void convert_data(const Batch& batch, const DeviceRing::Slot& slot, cudaStream_t stream,
                    const CallPlace& place) const {
    const DeviceFormat& format = settings_.format;
    if (!format.normalize) {
      check(cudaMemcpyAsync(slot.data, slot.staged_data, bytes_of(batch.data), cudaMemcpyDeviceToDevice,
                            stream),
            "cudaMemcpyAsync", place);
      return;
    }
    NormalizeJob job;
    job.in = slot.staged_data;
    job.from = format.from;
    job.out = slot.data;
    job.to = format.to;
    job.coefficients = coefficients_.get();
    job.layout.samples = batch.size();
    job.layout.channels = static_cast<std::int64_t>(format.channels);
    job.layout.in_width = job.layout.out_width = static_cast<std::int64_t>(format.pixels);
    job.layout.in_channels_last = format.in_channels_last;
    job.layout.out_channels_last = format.out_channels_last;
    check(launch_normalize(job, multiprocessors_, stream), "the normalize kernel", place);
  }

  void convert_target(const Batch& batch, const DeviceRing::Slot& slot, cudaStream_t stream,
                      const CallPlace& place) const {
    const ConvertJob job{slot.staged_target, settings_.format.target_from, slot.target,
                         settings_.format.target_to, batch.target.elements()};
    check(launch_convert(job, stream), "the label kernel", place);
  }

  static DeviceTensor tensor(const HostTensor& host, void* memory, DType dtype, bool channels_last) {
    if (!host.defined()) return {};
    return {memory, dtype, host.shape, strides_of(host.shape, channels_last)};
  }

  void keep_error(std::uint64_t ticket, std::exception_ptr error) noexcept {
    try {
      const MutexLock lock(mutex_);
      errors_[ticket] = std::move(error);
    } catch (const std::bad_alloc&) {
      // Then `deliver` finds the batch not transferred and meets the error itself.
    }
  }

  void refuse_if_lost() {
    const MutexLock lock(mutex_);
    if (lost_) throw DeviceError(*lost_);
  }

  // An error that a harmless call repeats is one that every call will.
  void note_if_lost(const CudaError& error) {
    const cudaError_t again = cudaStreamQuery(ring_.copy_stream());
    if (again == cudaSuccess || again == cudaErrorNotReady) return;
    ignore_error(again);
    const MutexLock lock(mutex_);
    if (!lost_) lost_ = error.what();
  }

  const CudaDeviceSettings settings_;
  std::optional<DeviceGuard> guard_at_start_;  // while the members below are made
  PinnedPool pinned_;
  DeviceRing ring_;
  DeviceMemory coefficients_;
  int multiprocessors_ = 1;

  Mutex enqueue_mutex_;  // one batch's calls are not mixed with another's
  Mutex mutex_;
  std::uint64_t next_ticket_ H5FEED_GUARDED_BY(mutex_) = 0;  // behind the last one delivered
  std::map<std::uint64_t, std::weak_ptr<Batch>> parked_ H5FEED_GUARDED_BY(mutex_);  // too early to copy
  std::map<std::uint64_t, std::exception_ptr> errors_ H5FEED_GUARDED_BY(mutex_);
  std::optional<std::string> lost_ H5FEED_GUARDED_BY(mutex_);  // the first error after which nothing works
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings& settings) {
  return std::make_unique<CudaDevice>(settings);
}

}  // namespace h5feed::gpu
