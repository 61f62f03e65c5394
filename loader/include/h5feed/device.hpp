// SPDX-License-Identifier: Apache-2.0
// Where batches are delivered: host memory, or that of a GPU.
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

/// What CUDA calls cudaStream_t, without its headers. Null is the legacy default stream.
using GpuStream = ::CUstream_st*;

/// A dense array in GPU memory; a view that owns nothing.
struct DeviceTensor {
  void* data = nullptr;  ///< null when there is no such tensor (no target)
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;    ///< logical: (B,C,H,W) also where the channels are stored last
  std::vector<std::int64_t> strides;  ///< in elements, one a dimension

  bool defined() const noexcept { return data != nullptr; }
};

/// One batch in the memory of a GPU. Copies and kernels that make it may still run when it is delivered:
/// every stream that works on it has to be named with `use_on` before.
///
/// When the last owner lets go, on whatever thread, the memory goes back to its loader at once, and the
/// GPU waits with the next use of it until all that was enqueued until then on the named streams is done.
/// The host never waits. A named stream must still exist at that moment. The memory outlives the loader.
class H5FEED_EXPORT DeviceBatch {
 public:
  virtual ~DeviceBatch() = default;

  /// Ordinal as CUDA counts in this process.
  virtual int device() const noexcept = 0;
  virtual const DeviceTensor& data() const noexcept = 0;
  virtual const DeviceTensor& target() const noexcept = 0;

  /// Makes what is enqueued on `stream` from now on wait until the batch is complete, and the reuse of its
  /// memory wait for that stream. Does not block. Any number of streams of the batch's device, from any
  /// thread. Throws DeviceError.
  virtual void use_on(GpuStream stream) = 0;

  /// `DeviceOutput::owner` of a batch in memory of the consumer, which the batch keeps; else null.
  virtual std::shared_ptr<void> owner() const noexcept { return nullptr; }
};

/// Where a consumer wants one batch. The memory is of the device that was asked about, aligned to its
/// elements, dense as described, and stays until what is enqueued on `stream` is done.
struct DeviceOutput {
  void* data = nullptr;
  void* target = nullptr;      ///< null where the dataset has no target
  GpuStream stream = nullptr;  ///< of the consumer: the batch is made on it, after what is enqueued there
  std::shared_ptr<void> owner = {};  ///< of the memory, for `DeviceBatch::owner`; may be null
};

/// Gives memory for a batch: `data` and `target` say dtype, shape and strides, and have no address. `target`
/// is null where the dataset has none.
using ProvideOutput =
    std::function<DeviceOutput(int device, const DeviceTensor& data, const DeviceTensor* target)>;

/// Memory of one GPU, in bytes, as seen by one loader.
struct GpuMemory {
  int device = 0;
  std::uint64_t total = 0;
  std::uint64_t free = 0;         ///< now, of all processes
  std::uint64_t loader = 0;       ///< allocated by this loader now; memory a consumer supplies is not in it
  std::uint64_t loader_peak = 0;  ///< the most it ever had
  /// In use when the loader was made, before it allocated anything: contexts, other processes, and what the
  /// program had by then.
  std::uint64_t at_start = 0;

  /// What is neither free nor the loader's: model, contexts, other processes.
  std::uint64_t rest() const noexcept { return total - free > loader ? total - free - loader : 0; }
};

/// Memory of a device beside batches that are delivered.
struct DeviceMemoryUse {
  std::uint64_t pinned = 0;           ///< bytes of host memory that is pinned
  std::uint64_t pageable_slots = 0;   ///< slots that had to be taken beside it so far
  std::optional<GpuMemory> gpu = {};  ///< unset on the CPU
};

/// Wall time in which a GPU had no free slot for the next batch, in nanoseconds since the loader was made.
struct SlotWaits {
  std::uint64_t gpu_ns = 0;       ///< the copies waited for work of the consumer on the GPU
  std::uint64_t transfer_ns = 0;  ///< copies were running
};

/// Memory that workers fill with one batch. Move-only in spirit: one owner at a time.
struct BatchSlot {
  HostTensor data;
  HostTensor target;
  bool free = true;  ///< false: there was no slot now, and this is none
};

/// What a slot is asked for.
struct SlotRequest {
  std::uint64_t epoch = 0;  ///< of the batch, for messages
  std::uint64_t batch = 0;
  bool wait = true;  ///< for copies that are under way, where no slot is free
};

/// Bytes of the two tensors of a full batch.
struct SlotBytes {
  std::size_t data = 0;
  std::size_t target = 0;
};

/// Gives workers the memory they assemble batches in, and turns an assembled batch into what the
/// consumer receives.
class H5FEED_EXPORT Device {
 public:
  virtual ~Device() = default;

  /// Memory for one batch of up to `SlotBytes`. Called by workers, many at once. Never waits for the
  /// consumer to give a batch back; a GPU may make it wait for copies that are under way, or return
  /// none where the request says not to. Throws std::bad_alloc, DeviceError.
  virtual BatchSlot acquire_slot(const SlotRequest& request) = 0;

  /// A batch is assembled. Called once for each, by the worker that finished it, in any order, before
  /// the consumer can take it; `ticket` counts batches over the loader's life. A GPU begins the copy of
  /// batches that are due soon. `transforms` of the batch are those of all its deliveries, one after the
  /// other; `deliver` leaves its own. Does not block; an error is kept for `deliver`.
  virtual void stage(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) noexcept {
    static_cast<void>(ticket);
    static_cast<void>(assembled);
  }

  /// Hands an assembled batch over, in delivery order, on the consumer's thread; on a GPU in memory that
  /// `provide` gives, where it is not empty. Throws DeviceError, OptionError, and what `provide` throws.
  virtual Batch deliver(std::uint64_t ticket, Batch assembled, const ProvideOutput& provide) = 0;

  /// On a GPU that was told of several deliveries: the batch delivered last, once more, made from what is
  /// still on the device. `like` is that batch without its memory, with its next transforms; `nth` counts the
  /// deliveries before. As `deliver`.
  virtual Batch deliver_again(Batch like, std::uint64_t nth, const ProvideOutput& provide);

  /// For people: "cpu", "cuda:0 (PCI 0000:19:00.0)".
  virtual std::string name() const { return "cpu"; }

  /// Bytes of buffers lent out now (in preparation or with the consumer), and buffers ever allocated.
  virtual std::uint64_t lent_bytes() const = 0;
  virtual std::uint64_t allocations() const = 0;
  virtual SlotWaits slot_waits() const { return {}; }
  /// May call CUDA. Does not throw.
  virtual DeviceMemoryUse memory() const { return {}; }
};

/// CPU memory from a recycled pool. A consumer that keeps batches makes the pool grow; that is
/// counted, and logged once when more than `expected_buffers` are out.
H5FEED_EXPORT std::unique_ptr<Device> make_host_device(SlotBytes bytes, std::size_t expected_buffers);

}  // namespace h5feed
