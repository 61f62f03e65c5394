// SPDX-License-Identifier: Apache-2.0
// Access to GPUs: loads h5feed._gpu when a loader first needs it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "h5feed/options.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// Gives `options.device` the CUDA backend of h5feed._gpu, if the device is a GPU or "auto" or `pin_memory`
/// is set. Where h5feed._gpu is not installed or cannot be loaded, "auto" and `pin_memory` are switched off,
/// with a warning. Raises OptionError or DeviceError for the other names of GPUs. Call with the GIL held.
///
/// `allocate`: None, or a function from a number of bytes to (address, owner), which provides the memory of
/// `pin_memory`; workers call it with the GIL. `owner` is kept until the memory is not used any more, and is
/// released by `release_owners`.
void use_gpu_part(DataLoaderOptions& options, const nb::object& allocate);

/// Releases the owners of pinned memory that is not used any more. Call with the GIL held.
void release_owners();

/// Returns the owner of memory that `allocate` of `use_gpu_part` provided; None for other memory.
nb::object owner_of_pinned(const std::shared_ptr<std::byte>& bytes);

/// Binds `why_no_gpu_part`.
void bind_gpu(nb::module_& module);

}  // namespace h5feed::python
