// SPDX-License-Identifier: Apache-2.0
// Contexts of devices, by the driver that the CUDA runtime has loaded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace h5feed::gpu {

/// Makes the primary context of a device, the one that the runtime uses, current on this thread, on top of
/// what is current now; creates it where there is none. Unlike cudaSetDevice, whose undoing would create a
/// context on the device that was current before, `pop_context` leaves no trace, also on a thread that has
/// never called CUDA (CUDA Runtime API, "Interactions with the CUDA Driver API"). What is created stays for
/// the life of the process, as the runtime's own contexts do. Thread-safe.
cudaError_t push_context(int device) noexcept;

/// Undoes the last `push_context` of this thread.
void pop_context() noexcept;

/// Whether the device has a primary context now: somebody in this process works on it. Creates none; false
/// also where the driver does not say.
bool has_context(int device) noexcept;

/// Free bytes of a device; a context that has to be created for the question, of some hundred MiB, is given
/// back. Fails where the device cannot be used.
cudaError_t free_memory(int device, std::size_t& bytes) noexcept;

}  // namespace h5feed::gpu
