// SPDX-License-Identifier: Apache-2.0
// Devices that batches are delivered to: host memory or a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/export.hpp"

struct CUstream_st;

namespace h5feed {

/// A CUDA stream, cudaStream_t, without the CUDA headers. Null is the legacy default stream.
using GpuStream = ::CUstream_st*;

/// A dense array in GPU memory; borrows its memory.
struct DeviceTensor {
  /// First element; null if the tensor does not exist, such as a missing target.
  void* data = nullptr;
  DType dtype = DType::f32;  ///< element type
  /// Logical shape: (B,C,H,W) also if the channels are stored last.
  std::vector<std::int64_t> shape;
  /// Strides in elements, one per dimension.
  std::vector<std::int64_t> strides;

  /// Returns whether the tensor exists.
  bool defined() const noexcept { return data != nullptr; }
};

/// One batch in GPU memory. Its copies and kernels may still run when it is delivered: call `use_on` for
/// every stream before work on the batch is enqueued there.
///
/// When the last owner is destroyed, on any thread, the memory returns to its loader at once, and the GPU
/// delays its reuse until all work enqueued so far on the streams given to `use_on` is done. The host never
/// waits. Each of these streams must still exist at that moment. The memory outlives the loader.
class H5FEED_EXPORT DeviceBatch {
 public:
  virtual ~DeviceBatch() = default;

  /// Returns the CUDA ordinal of the device in this process.
  virtual int device() const noexcept = 0;
  /// Returns the samples, borrowed from the batch.
  virtual const DeviceTensor& data() const noexcept = 0;
  /// Returns the targets, borrowed from the batch; undefined if the dataset has no target.
  virtual const DeviceTensor& target() const noexcept = 0;

  /// Makes work enqueued on `stream` from now on wait until the batch is complete, and reuse of the batch's
  /// memory wait for that stream. Accepts any number of streams of the batch's device. Thread-safe. Does not
  /// block. Throws DeviceError if a CUDA call fails.
  virtual void use_on(GpuStream stream) = 0;

  /// Returns `DeviceOutput::owner`, which the batch keeps alive; null if the consumer did not provide the
  /// memory.
  virtual std::shared_ptr<void> owner() const noexcept { return nullptr; }
};

/// Memory of the consumer for one batch. It must be on the requested device, aligned to its elements, dense
/// as requested, and valid until the work enqueued on `stream` is done.
struct DeviceOutput {
  /// Memory of the samples.
  void* data = nullptr;
  /// Memory of the targets; null if the dataset has no target.
  void* target = nullptr;
  /// Stream of the consumer on which the batch is made, after the work already enqueued there.
  GpuStream stream = nullptr;
  /// Owner of the memory, for `DeviceBatch::owner`; may be null.
  std::shared_ptr<void> owner = {};
};

/// Callback that returns memory for a batch on `device`. `data` and `target` give dtype, shape and strides,
/// without an address; `target` is null if the dataset has no target.
using ProvideOutput =
    std::function<DeviceOutput(int device, const DeviceTensor& data, const DeviceTensor* target)>;

/// Memory of one GPU in bytes, as seen by one loader.
struct GpuMemory {
  /// CUDA ordinal of the device in this process.
  int device = 0;
  /// Bytes of memory of the device.
  std::uint64_t total = 0;
  std::uint64_t free = 0;  ///< bytes free now, over all processes
  /// Bytes allocated by this loader now, without memory that the consumer provides.
  std::uint64_t loader = 0;
  std::uint64_t loader_peak = 0;  ///< most bytes ever allocated by this loader
  /// Bytes in use when the loader was made, before its first allocation: contexts, other processes, and
  /// earlier allocations of the program.
  std::uint64_t at_start = 0;

  /// Returns the bytes that are neither free nor allocated by the loader: model, contexts, other processes.
  std::uint64_t rest() const noexcept { return total - free > loader ? total - free - loader : 0; }
};

/// Host and GPU memory that a device uses.
struct DeviceMemoryUse {
  std::uint64_t pinned = 0;           ///< bytes of pinned host memory
  std::uint64_t pageable_slots = 0;   ///< slots taken from pageable memory so far, as no pinned slot was free
  std::optional<GpuMemory> gpu = {};  ///< memory of the GPU; unset on the CPU
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
  /// Memory of the targets; undefined if the dataset has no target.
  HostTensor target;
  bool free = true;  ///< false: no slot was available, and this one is empty
};

/// Request of a slot for one batch.
struct SlotRequest {
  std::uint64_t epoch = 0;  ///< epoch of the batch, for messages
  std::uint64_t batch = 0;  ///< number of the batch in its epoch, for messages
  bool wait = true;         ///< whether to wait for running copies if no slot is free
};

/// Bytes of the two tensors of a full batch.
struct SlotBytes {
  /// Bytes of the samples.
  std::size_t data = 0;
  /// Bytes of the targets.
  std::size_t target = 0;
};

/// Provides workers with memory to assemble batches in, and turns an assembled batch into the delivered one.
class H5FEED_EXPORT Device {
 public:
  virtual ~Device() = default;

  /// Returns memory for one batch of up to `SlotBytes`. Thread-safe; called by workers concurrently. Never
  /// waits for the consumer to release a batch. A GPU may block until running copies are done, or return a
  /// slot that is not `free` if `request.wait` is false. Throws std::bad_alloc, DeviceError.
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
/// use.
H5FEED_EXPORT std::unique_ptr<Device> make_host_device(SlotBytes bytes, std::size_t expected_buffers);

}  // namespace h5feed
