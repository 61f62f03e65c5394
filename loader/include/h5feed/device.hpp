// SPDX-License-Identifier: Apache-2.0
// The device that a loader delivers to, and batches in GPU memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"

struct CUstream_st;

namespace h5feed {

/// A GPU backend. Opaque to users: `h5feed::gpu::device` of <h5feed/gpu.hpp> puts one into a `LoaderDevice`.
class DeviceBackend;

/// Device that a loader delivers to: a name, and the backend that gives access to a GPU of that name.
/// Converts implicitly from a name. A value type; copies share the backend.
class LoaderDevice {
 public:
  /// Creates the device "cpu": batches stay in host memory.
  LoaderDevice() = default;
  /// Creates a device without a backend. The loader of <h5feed/torch.hpp> adds the backend if h5feed and
  /// LibTorch are built with CUDA; any other loader refuses a GPU then, and "auto" selects the CPU.
  LoaderDevice(std::string name) : name_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  /// Creates a device without a backend, as `LoaderDevice(std::string)` does.
  LoaderDevice(const char* name) : name_(name) {}  // NOLINT(google-explicit-constructor)
  /// Creates a device with a backend, which it shares; null is allowed. Users call `h5feed::gpu::device`
  /// instead.
  LoaderDevice(std::string name, std::shared_ptr<const DeviceBackend> backend)
      : name_(std::move(name)), backend_(std::move(backend)) {}

  /// Returns the name as given, such as "cpu" or "cuda:0".
  const std::string& name() const noexcept { return name_; }
  /// Returns the backend; null if none was given.
  const std::shared_ptr<const DeviceBackend>& backend() const noexcept { return backend_; }

 private:
  std::string name_ = "cpu";
  std::shared_ptr<const DeviceBackend> backend_;
};

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

/// A named field of a batch in GPU memory.
struct DeviceField {
  /// Name of the field, `BatchField::name`.
  std::string name;
  /// Values of all samples of the batch.
  DeviceTensor values;
};

/// The tensors of a batch in GPU memory.
struct DeviceTensors {
  /// Samples.
  DeviceTensor data;
  /// Targets; unset if the dataset has none.
  std::optional<DeviceTensor> target = {};
  /// Named fields with `Collate::stack`, and the fields that say which rows of windows exist, in the order of
  /// `Batch::fields`. Fields of other collations are in host memory.
  std::vector<DeviceField> fields = {};
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
  /// Returns all tensors, borrowed from the batch.
  virtual const DeviceTensors& tensors() const noexcept = 0;

  /// Returns the samples, borrowed from the batch.
  const DeviceTensor& data() const noexcept { return tensors().data; }
  /// Returns the targets, borrowed from the batch; undefined if the dataset has no target.
  const DeviceTensor& target() const noexcept {
    static const DeviceTensor none;
    return tensors().target ? *tensors().target : none;
  }
  /// Returns the values of the named field, borrowed from the batch. Throws std::out_of_range if no field on
  /// the GPU has the name: those with `Collate::pad` and `Collate::ragged` are in host memory.
  const DeviceTensor& field(std::string_view name) const {
    for (const DeviceField& candidate : tensors().fields) {
      if (candidate.name == name) return candidate.values;
    }
    throw std::out_of_range("h5feed::DeviceBatch::field: no field \"" + std::string(name) + "\" on the GPU");
  }

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
  /// Memory of each of `DeviceTensors::fields`, in that order.
  std::vector<void*> fields = {};
};

/// Callback that returns memory for a batch on `device`. `tensors` give names, dtypes, shapes and strides,
/// without addresses. Called once per delivery, on the thread that calls `next_into` or advances the
/// iterator. If it throws, that call rethrows the exception and the batch is lost.
using ProvideOutput = std::function<DeviceOutput(int device, const DeviceTensors& tensors)>;

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

}  // namespace h5feed
