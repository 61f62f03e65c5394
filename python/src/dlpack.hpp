// SPDX-License-Identifier: Apache-2.0
// The DLPack exchange protocol (data-apis.org/array-api, "Data interchange mechanisms"; ABI version 1).
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "h5feed/batch.hpp"
#include "python/src/device_array.hpp"

namespace h5feed::python {

namespace nb = nanobind;

inline constexpr int kDlCpu = 1;   ///< device type of host memory
inline constexpr int kDlCuda = 2;  ///< device type of memory of an NVIDIA GPU

/// Element type: a kind of number, its bits, and values per element.
struct DlDataType {
  std::uint8_t code;    ///< 0 signed, 1 unsigned, 2 IEEE float, 4 bfloat
  std::uint8_t bits;    ///< bits of one value
  std::uint16_t lanes;  ///< values per element: 1
};

/// Returns the DLPack type of `dtype`.
DlDataType dl_data_type(DType dtype) noexcept;

/// `__dlpack__` of a tensor: returns a capsule that shares its bytes, or with `copy=True` owns a copy, and
/// may be freed on any thread, without Python. `max_version` as the consumer states it selects the form; (1,
/// 0) and later get the versioned one. Raises BufferError for a device other than the CPU, ValueError for a
/// stream.
nb::object dlpack_of(const HostTensor& tensor, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy);

/// `__dlpack__` of an array on a GPU: returns a capsule that shares its memory and may be freed on any
/// thread, without Python. Work that the consumer enqueues on `stream` waits for the batch, and reuse of the
/// memory for that stream: a cudaStream_t as int; 1 or None, the legacy default stream; 2, the per-thread
/// default stream; -1, none, because the consumer synchronizes itself. Raises BufferError for another device
/// and for `copy=True`, ValueError for other numbers.
nb::object dlpack_of_device_array(const DeviceArray& array, nb::handle stream, nb::handle max_version,
                                  nb::handle dl_device, nb::handle copy);

}  // namespace h5feed::python
