// SPDX-License-Identifier: Apache-2.0
// The DLPack exchange protocol (data-apis.org/array-api, "Data interchange mechanisms"; ABI version 1).
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "h5feed/batch.hpp"

namespace h5feed::python {

namespace nb = nanobind;

inline constexpr int kDlCpu = 1;  ///< device type of host memory

/// Element type: a kind of number, its bits, and values per element.
struct DlDataType {
  std::uint8_t code;    ///< 0 signed, 1 unsigned, 2 IEEE float, 4 bfloat
  std::uint8_t bits;    ///< bits of one value
  std::uint16_t lanes;  ///< values per element: 1
};

/// Returns the DLPack type of `dtype`.
DlDataType dl_data_type(DType dtype) noexcept;

/// `__dlpack__` of a tensor: returns a capsule that shares its bytes and may be freed on any thread, without
/// Python. `max_version` as the consumer states it selects the form; (1, 0) and later get the versioned one.
/// Raises BufferError for a device other than the CPU, and for `copy=True`; ValueError for a stream.
nb::object dlpack_of(const HostTensor& tensor, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy);

}  // namespace h5feed::python
