// SPDX-License-Identifier: Apache-2.0
// Arrays in GPU memory of the loader, for other libraries to take over.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>

#include "h5feed/batch.hpp"
#include "h5feed/device.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// A tensor of a batch in GPU memory, which it keeps alive.
class DeviceArray {
 public:
  /// `tensor` is one of `batch->tensors()`.
  DeviceArray(std::shared_ptr<DeviceBatch> batch, const DeviceTensor& tensor)
      : batch_(std::move(batch)), tensor_(&tensor) {}

  const std::shared_ptr<DeviceBatch>& batch() const noexcept { return batch_; }
  const DeviceTensor& tensor() const noexcept { return *tensor_; }

  /// Makes work enqueued from now on on a stream wait for the batch, and reuse of its memory for that stream.
  /// `stream` is a cudaStream_t, or 1 or 2, CUDA's default streams. Raises ValueError for other numbers below
  /// 3. Call with the GIL held.
  void use_on(std::int64_t stream) const;

 private:
  std::shared_ptr<DeviceBatch> batch_;
  const DeviceTensor* tensor_;  // of `batch_`
};

/// Returns (data, target), or (data,), of a batch in GPU memory.
nb::object device_arrays(const Batch& batch);

/// Returns the values of a named field of a batch in GPU memory; None if they are in host memory.
nb::object device_field(const Batch& batch, const std::string& name);

/// Makes a batch in GPU memory safe against forks: the child, which cannot use CUDA, never frees it.
void keep_in_forked_child(Batch& batch);

/// Binds DeviceArray.
void bind_device_array(nb::module_& module);

}  // namespace h5feed::python
