// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cuda/converter.hpp"
#include "cuda/copied_batch.hpp"
#include "cuda/copy_schedule.hpp"
#include "cuda/delivered_tensors.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/memory/given_batch.hpp"
#include "cuda/memory/output_ring.hpp"
#include "cuda/memory/pinned_pool.hpp"
#include "cuda/memory/row_store.hpp"
#include "cuda/memory/slot_layout.hpp"
#include "cuda/memory/staged_ring.hpp"
#include "cuda/runtime/check.hpp"
#include "cuda/runtime/handles.hpp"

namespace h5feed::gpu {
namespace {

// Returns the bytes in use on the device, by any process. Creates the context if there is none yet.
std::uint64_t used_bytes(int device) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", {device});
  return total - free;
}

PinnedPool::Settings pool_settings(const CudaDeviceSettings& settings, std::size_t slot_bytes) {
  return {.slot_bytes = slot_bytes,
          .slots = settings.capacity.host_slots,
          .device = settings.device,
          .touch_threads = settings.touch_threads,
          .best = settings.best_pinning,
          .poison = settings.poison,
          .check_sources = settings.check_sources};
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaDeviceSettings& settings)
      : settings_(settings),
        guard_at_start_(std::in_place, settings.device),
        used_at_start_(used_bytes(settings.device)),
        layout_(SlotLayout::of(settings.format)),
        pinned_(pool_settings(settings, layout_.bytes)),
        // One slot to copy to while the others are in use, by batches ahead of the consumer or by a batch
        // that is kept for repeats.
        staged_({.device = settings.device,
                 .layout = layout_,
                 .slots = settings.capacity.depth + (settings.format.deliveries > 1 ? 2 : 1)},
                ledger_),
        converter_(settings.format, settings.device, staged_.copy_stream(), ledger_),
        // In addition to the batches that are copied ahead: one batch that the consumer uses and one that it
        // has just released.
        ring_(std::make_shared<OutputRing>(
            OutputRing::Settings{.device = settings.device,
                                 .bytes = converter_.delivered_bytes(),
                                 .slots = settings.capacity.own_outputs ? settings.capacity.depth + 2 : 0,
                                 .poison = settings.poison},
            ledger_)),
        converts_ahead_(settings.capacity.own_outputs),
        schedule_(settings.capacity.depth) {
    if (settings.format.gathers) {
      store_ = std::make_unique<RowStore>(RowStore::Settings{.device = settings.device,
                                                             .row_bytes = converter_.staged_sample_bytes(),
                                                             .samples = settings.capacity.samples,
                                                             .copies = staged_.copy_stream(),
                                                             .size = settings.capacity.cache,
                                                             .foresee = settings.capacity.foresee},
                                          ledger_);
    }
    guard_at_start_.reset();
  }

  BatchSlot acquire_slot(const SlotRequest& request) override {
    refuse_if_lost();
    try {
      const DeviceGuard guard(settings_.device);
      BatchSlot slot;
      const std::shared_ptr<std::byte> memory =
          pinned_.acquire({settings_.device, request.epoch, request.batch}, request.wait);
      slot.free = memory != nullptr;
      if (!slot.free) return slot;
      slot.data.bytes = {memory, memory.get() + layout_.data_offset};
      if (has_target()) slot.target.bytes = memory;
      slot.fields.resize(settings_.format.slot.fields.size());
      for (const auto& [number, offset] : layout_.fields)
        slot.fields[number] = {memory, memory.get() + offset};
      if (store_) {
        CopiedBatch::Samples samples{.kept = store_->find(request.samples),
                                     .end_turn = request.first_turn + request.samples.size()};
        if (samples.kept) slot.places = places_of(*samples.kept);
        slot.gpu = std::make_shared<CopiedBatch>(settings_.device, ring_, std::move(samples));
      }
      return slot;
    } catch (const CudaError& error) {
      note_if_lost(error);
      throw;
    }
  }

  void stage(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) noexcept override {
    try {
      if (schedule_.is_due(ticket, assembled)) transfer(*assembled);
    } catch (...) {
      schedule_.keep_error(ticket, std::current_exception());
    }
  }

  Batch deliver(std::uint64_t ticket, Batch assembled, const ProvideOutput& provide) override {
    const auto [error, due] = schedule_.deliver(ticket);
    if (provide) converts_ahead_.store(false, std::memory_order_relaxed);
    if (!error && !is_copied(assembled)) transfer(assembled);
    for (const CopySchedule::Due& next : due) {
      if (next.batch) stage(next.ticket, next.batch);
    }
    if (error) std::rethrow_exception(error);
    repeated_.reset();
    auto copied = std::static_pointer_cast<CopiedBatch>(std::exchange(assembled.gpu, nullptr));
    assembled.gpu = finish(assembled, *copied, 0, provide);
    if (store_) {
      const DeviceGuard guard(settings_.device);
      store_->delivered(num_entered(copied->samples.kept.get()));
    }
    if (settings_.format.deliveries > 1) repeated_ = std::move(copied);
    if (settings_.format.augments) assembled.transforms.resize(assembled.indices.size());
    return assembled;
  }

  Batch deliver_again(Batch like, std::uint64_t nth, const ProvideOutput& provide) override {
    like.gpu = finish(like, *repeated_, nth, provide);
    if (nth + 1 == settings_.format.deliveries) repeated_.reset();
    return like;
  }

  bool holds(std::int64_t sample) const override { return store_ && store_->holds(sample); }

  std::string name() const override {
    return fmt::format("cuda:{} (PCI {})", settings_.device, pci_id_of(settings_.device));
  }

  std::uint64_t lent_bytes() const override { return ring_->lent() * ring_->slot_bytes(); }
  std::uint64_t allocations() const override { return ring_->allocated(); }

  SlotWaits slot_waits() const override { return pinned_.waits(); }

  DeviceMemoryUse memory() const override {
    DeviceMemoryUse use{.pinned = pinned_.pinned_bytes(), .pageable_slots = pinned_.overflows()};
    GpuMemory gpu{.device = settings_.device,
                  .loader = ledger_->bytes(),
                  .loader_peak = ledger_->peak(),
                  .at_start = used_at_start_};
    try {
      const DeviceGuard guard(settings_.device);
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", {settings_.device});
      gpu.free = free;
      gpu.total = total;
    } catch (const CudaError&) {
      // The device has failed; the values counted here are all that is known.
    }
    use.gpu = gpu;
    if (store_) {
      use.cache_bytes = store_->bytes();
      use.cache_hits = store_->served();
    }
    return use;
  }

 private:
  // Enqueues the copy of a batch, releases its host memory, and converts it if the ring provides the outputs.
  void transfer(Batch& batch) {
    refuse_if_lost();
    try {
      const DeviceGuard guard(settings_.device);
      const CallPlace place = CallPlace::of(settings_.device, batch);
      auto copied = std::make_shared<CopiedBatch>(settings_.device, ring_, samples_of(batch));
      try {
        copied->staged = with_memory([&] { return staged_.acquire(place); });
        // Without the mutex: the copy of a pageable slot blocks until the earlier ones are done.
        enqueue_copy(batch, *copied, place);
        if (converts_ahead_.load(std::memory_order_relaxed)) {
          const MutexLock lock(enqueue_mutex_);
          copied->output = output_ahead(place);
          if (copied->output) convert(batch, *copied, *copied->output, 0, place);
        }
      } catch (...) {
        wait_for_streams();
        throw;
      }
      batch.gpu = std::move(copied);
      batch.data.bytes.reset();
      batch.target.bytes.reset();
      for (const SlotLayout::FieldPlace& field : layout_.fields)
        batch.fields[field.number].values.bytes.reset();
    } catch (const CudaError& error) {
      note_if_lost(error);
      throw;
    }
  }

  // Waits until the streams have finished with a failed batch, so that its memory can be reused.
  void wait_for_streams() const noexcept {
    ignore_error(cudaStreamSynchronize(staged_.copy_stream()));
    ignore_error(cudaStreamSynchronize(ring_->compute_stream()));
  }

  // Calls `allocate` again as long as the kept samples have memory to give back for it.
  template <typename F>
  std::invoke_result_t<F> with_memory(F&& allocate) {
    while (true) {
      try {
        return allocate();
      } catch (const CudaError& error) {
        if (error.code() != cudaErrorMemoryAllocation || !store_ || !store_->give_back()) throw;
      }
    }
  }

  // Returns memory to convert a batch ahead of its delivery; null if there is none: it is then converted when
  // it is delivered, after the consumer may have released a batch.
  std::unique_ptr<OutputRing::Slot> output_ahead(const CallPlace& place) {
    try {
      return with_memory([&] { return ring_->acquire(place); });
    } catch (const CudaError& error) {
      if (error.code() != cudaErrorMemoryAllocation) throw;
      return nullptr;
    }
  }

  // Fills in what is in front of the data in the slot, copies everything at once, and keeps its samples.
  void enqueue_copy(const Batch& batch, CopiedBatch& copied, const CallPlace& place) {
    const cudaStream_t stream = staged_.copy_stream();
    const StagedRing::Slot& slot = *copied.staged;
    if (batch.size() > 0) {
      std::byte* const begin = batch.data.bytes.get() - layout_.data_offset;
      if (settings_.format.augments) {
        std::memcpy(begin + layout_.transforms_offset, batch.transforms.data(),
                    batch.transforms.size() * sizeof(SampleTransform));
      }
      const std::size_t sample_bytes = converter_.staged_sample_bytes();
      RowStore::Rows* const kept = copied.samples.kept.get();
      std::size_t samples = batch.indices.size();
      if (kept != nullptr) {
        const SampleMemory memory{
            .device = slot.data, .host = batch.data.bytes.get(), .sample_bytes = sample_bytes};
        samples = write_addresses(*kept, memory, begin + layout_.rows_offset);
      }
      pinned_.copy(slot.memory.get(), begin, layout_.data_offset + samples * sample_bytes, stream, place);
      if (store_) {
        const SplitSamples of_batch = split(batch.indices, kept);
        store_->keep(of_batch.copied, of_batch.served, copied.samples.end_turn, slot.data, place);
      }
    }
    check(cudaEventRecord(slot.copied.get(), stream), "cudaEventRecord", place);
  }

  // Converts a batch into a slot of the ring, on the stream of the ring.
  void convert(const Batch& batch, CopiedBatch& copied, OutputRing::Slot& slot, std::uint64_t nth,
               const CallPlace& place) {
    const cudaStream_t stream = ring_->compute_stream();
    // The kernel overwrites memory that the consumer of the slot's previous batch may still read.
    for (std::size_t i = 0; i < slot.consumers; ++i) {
      check(cudaStreamWaitEvent(stream, slot.consumed[i].get(), 0), "cudaStreamWaitEvent", place);
    }
    slot.consumers = 0;  // whatever uses the slot next comes after these waits, on the same stream
    convert_into(slot.output, batch, copied, nth, place);
    check(cudaEventRecord(slot.ready.get(), stream), "cudaEventRecord", place);
  }

  // Converts a batch on the stream of `to`.
  void convert_into(const DeviceOutput& to, const Batch& batch, CopiedBatch& copied, std::uint64_t nth,
                    const CallPlace& place) {
    StagedRing::Lease& staged = copied.staged;
    check(cudaStreamWaitEvent(to.stream, staged->copied.get(), 0), "cudaStreamWaitEvent", place);
    StagedBatch from{.data = staged->data, .target = staged->target, .samples = batch.size()};
    if (settings_.format.augments) from.transforms = staged->transforms + nth * batch.indices.size();
    if (copied.samples.kept) from.rows = staged->rows;
    if (has_target()) from.target_elements = batch.target.elements();
    for (const auto& [number, offset] : layout_.fields) {
      const HostTensor& values = batch.fields[number].values;
      from.fields.push_back({.values = staged->memory.get() + offset,
                             .bytes = static_cast<std::size_t>(values.elements()) * size_of(values.dtype)});
    }
    converter_.enqueue(from, to, place);
    staged.read_on(to.stream, place);
    if (copied.samples.kept) store_->read_on(to.stream, place);
  }

  // Returns the batch for the consumer: in memory that `provide` gives, else in a slot of the ring, converted
  // before or now.
  std::shared_ptr<DeviceBatch> finish(const Batch& batch, CopiedBatch& copied, std::uint64_t nth,
                                      const ProvideOutput& provide) {
    std::unique_ptr<OutputRing::Slot>& output = copied.output;
    refuse_if_lost();
    const CallPlace place = CallPlace::of(settings_.device, batch);
    DeviceTensors tensors = describe(batch, settings_.format, layout_);
    try {
      if (provide) {
        if (output) ring_->give_back(std::move(output));
        DeviceOutput given = provide(settings_.device, tensors);
        given.fields.resize(tensors.fields.size());
        const MutexLock lock(enqueue_mutex_);
        const DeviceGuard guard(settings_.device);
        check_given(place, given, tensors);
        try {
          convert_into(given, batch, copied, nth, place);
        } catch (...) {
          ignore_error(cudaStreamSynchronize(given.stream));
          throw;
        }
        return make_given_batch(place, given, placed_in(given, std::move(tensors)));
      }
      const MutexLock lock(enqueue_mutex_);
      const DeviceGuard guard(settings_.device);
      if (!output) {
        output = with_memory([&] { return ring_->acquire(place); });
        try {
          convert(batch, copied, *output, nth, place);
        } catch (...) {
          wait_for_streams();
          ring_->give_back(std::move(output));
          throw;
        }
      }
      tensors = placed_in(output->output, std::move(tensors));
      return ring_->hand_over(std::move(output), std::move(tensors), place);
    } catch (const CudaError& error) {
      note_if_lost(error);
      throw;
    }
  }

  bool has_target() const noexcept { return settings_.format.slot.target > 0; }

  void refuse_if_lost() {
    const MutexLock lock(mutex_);
    if (lost_) throw DeviceError(*lost_);
  }

  // A harmless call repeats an error that has destroyed the context. Other errors are temporary, such as that
  // of a call which the capture of a CUDA graph forbids.
  void note_if_lost(const CudaError& error) {
    const QuietDeviceGuard guard(settings_.device);
    const cudaError_t again = cudaStreamQuery(staged_.copy_stream());
    ignore_error(again == cudaErrorNotReady ? cudaSuccess : again);
    if (!ends_context(again)) return;
    const MutexLock lock(mutex_);
    if (!lost_) lost_ = error.what();
  }

  const CudaDeviceSettings settings_;
  std::optional<DeviceGuard> guard_at_start_;  // set during construction only
  const std::uint64_t used_at_start_;
  const std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
  const SlotLayout layout_;
  PinnedPool pinned_;
  StagedRing staged_;
  const Converter converter_;
  const std::shared_ptr<OutputRing> ring_;
  std::atomic<bool> converts_ahead_;
  CopySchedule schedule_;
  // Samples that stay on the device; null without a cache.
  std::unique_ptr<RowStore> store_;
  // The batch delivered last, while it is to be repeated. Used by the consumer's thread only.
  std::shared_ptr<CopiedBatch> repeated_;

  Mutex enqueue_mutex_;  // keeps the calls that convert one batch together
  Mutex mutex_;
  // Message of the error that destroyed the context.
  std::optional<std::string> lost_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings& settings) {
  return std::make_unique<CudaDevice>(settings);
}

}  // namespace h5feed::gpu
