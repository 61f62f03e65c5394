// SPDX-License-Identifier: Apache-2.0
// Batches in Python: arrays over the memory of the loader, without copies.
#pragma once

#include <nanobind/nanobind.h>

#include "h5feed/batch.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// Returns a writable NumPy array over the bytes of `tensor`, which it shares; None if the tensor does not
/// exist. Raises TypeError for bfloat16, which NumPy does not have.
nb::object to_numpy(const HostTensor& tensor);

/// Binds Tensor and Batch.
void bind_batch(nb::module_& module);

}  // namespace h5feed::python
