// SPDX-License-Identifier: Apache-2.0
// Interface of the devices that a loader delivers to, and the CPU device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sample_place.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/device.hpp"
#include "h5feed/export.hpp"

namespace h5feed {

/// Host and GPU memory that a device uses.
struct DeviceMemoryUse {
  std::uint64_t pinned = 0;           ///< bytes of pinned host memory
  std::uint64_t pageable_slots = 0;   ///< slots taken from pageable memory so far, as no pinned slot was free
  std::optional<GpuMemory> gpu = {};  ///< memory of the GPU; unset on the CPU
  std::uint64_t cache_bytes = 0;      ///< bytes of GPU memory in which samples stay; part of `gpu`
  std::uint64_t cache_hits = 0;       ///< samples of delivered batches that came from there
};

/// Wall time, since the loader was made, in which a batch was due but no GPU slot was free.
struct SlotWaits {
  std::uint64_t gpu_ns = 0;       ///< nanoseconds in which copies waited for the consumer's work on the GPU
  std::uint64_t transfer_ns = 0;  ///< nanoseconds in which copies were running
};

/// Memory that a worker fills with one batch. Shares ownership of its bytes; pass it on by move.
struct BatchSlot {
  /// Memory of the samples.
  HostTensor data;
  /// Place of each sample in `data`, counted in samples, or `kOnDevice`. Empty: they follow each other.
  std::vector<std::uint32_t> places = {};
  /// State of the batch on its device, which `Batch::gpu` takes over when the batch is staged; null on the
  /// CPU.
  std::shared_ptr<DeviceBatch> gpu = {};
  /// Memory of the targets; undefined if the dataset has no target.
  HostTensor target;
  /// Memory of each of `Batch::fields`; null, or missing at the end: it is not part of the slot.
  std::vector<std::shared_ptr<std::byte>> fields = {};
  bool free = true;  ///< false: no slot was available, and this one is empty
};

/// Whether samples are delivered again, as far as a loader foresees it: in the running epoch or the next one.
struct Foreseen {
  std::vector<bool> due = {};  ///< of each sample asked for
  std::uint64_t end = 0;       ///< first turn of which nothing is foreseen; changes with every epoch
};

/// Returns whether samples are delivered at turn `after` or later. A turn is the number of a sample among all
/// that the loader delivers, over all its epochs. Thread-safe. Throws std::bad_alloc.
using Foresee = std::function<Foreseen(std::span<const std::int64_t> samples, std::uint64_t after)>;

/// Request of a slot for one batch.
struct SlotRequest {
  std::uint64_t epoch = 0;                     ///< epoch of the batch, for messages
  std::uint64_t batch = 0;                     ///< number of the batch in its epoch, for messages
  bool wait = true;                            ///< whether to wait for running copies if no slot is free
  std::span<const std::int64_t> samples = {};  ///< samples of the batch; empty: nothing is known of them
  std::uint64_t first_turn = 0;                ///< turn of its first sample; the others follow it
};

/// Bytes of the tensors of a full batch.
struct SlotBytes {
  /// Bytes of the samples.
  std::size_t data = 0;
  /// Bytes of the targets.
  std::size_t target = 0;
  /// Bytes of each of `Batch::fields`; 0, or missing at the end: the field is not part of the slot.
  std::vector<std::size_t> fields = {};
};

/// Provides workers with memory to assemble batches in, and turns an assembled batch into the delivered one.
class H5FEED_EXPORT Device {
 public:
  virtual ~Device() = default;

  /// Returns memory for one batch of up to `SlotBytes`. Thread-safe; called by workers concurrently. Never
  /// waits for the consumer to release a batch. A GPU may block until running copies are done, or return a
  /// slot that is not `free` if `request.wait` is false. Throws std::bad_alloc, DeviceError.
  /// A GPU may ask for fewer samples than `request.samples`: `places` says which. The caller then keeps
  /// `BatchSlot::gpu` as `Batch::gpu` until the batch is staged or delivered.
  virtual BatchSlot acquire_slot(const SlotRequest& request) = 0;

  /// Announces an assembled batch. Called once per batch, by the worker that finished it, in any order,
  /// before the consumer can take it; `ticket` counts batches over the life of the loader. A GPU starts to
  /// copy batches that are due soon. `transforms` of the batch holds those of all its deliveries in turn;
  /// `deliver` keeps those of its own delivery. Does not block. Errors are kept for `deliver`.
  virtual void stage(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) noexcept {
    static_cast<void>(ticket);
    static_cast<void>(assembled);
  }

  /// Delivers an assembled batch. Called in delivery order, on the consumer's thread. On a GPU, a non-empty
  /// `provide` supplies the memory. Throws DeviceError, OptionError, and the exceptions of `provide`.
  virtual Batch deliver(std::uint64_t ticket, Batch assembled, const ProvideOutput& provide) = 0;

  /// Delivers the batch delivered last once more, made from the data still on the GPU. Only for a GPU that
  /// was made for several deliveries; others throw std::logic_error. `like` is that batch without its memory,
  /// with its next transforms; `nth` counts the earlier deliveries. Throws as `deliver`.
  virtual Batch deliver_again(Batch like, std::uint64_t nth, const ProvideOutput& provide);

  /// Returns whether the device has kept the sample, so that a batch requested now would not need it.
  /// Thread-safe.
  virtual bool holds(std::int64_t sample) const {
    static_cast<void>(sample);
    return false;
  }

  /// Returns a name for display: "cpu", "cuda:0 (PCI 0000:19:00.0)".
  virtual std::string name() const { return "cpu"; }

  /// Returns the bytes of buffers in use now, by batches in preparation or with the consumer.
  virtual std::uint64_t lent_bytes() const = 0;
  /// Returns the number of batch buffers allocated so far.
  virtual std::uint64_t allocations() const = 0;
  /// Returns the wall time without a free slot; 0 on the CPU.
  virtual SlotWaits slot_waits() const { return {}; }
  /// Returns the memory in use. May call CUDA. Does not throw.
  virtual DeviceMemoryUse memory() const { return {}; }
};

/// Returns a device that delivers in CPU memory from a recycled pool. The pool grows if the consumer keeps
/// batches; allocations are counted, and a warning is logged once when more than `expected_buffers` are in
/// use and the consumer has at least three batches.
H5FEED_EXPORT std::unique_ptr<Device> make_host_device(SlotBytes bytes, std::size_t expected_buffers);

}  // namespace h5feed
