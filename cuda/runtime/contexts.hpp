// SPDX-License-Identifier: Apache-2.0
// Device contexts, through the driver that the CUDA runtime has loaded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace h5feed::gpu {

/// Pushes the primary context of a device, the one that the runtime uses, on the context stack of this
/// thread; creates it if there is none. Unlike cudaSetDevice, which has to be undone by a call that creates a
/// context on the previous device, `pop_context` leaves no trace, even on a thread that has never called CUDA
/// (CUDA Runtime API, "Interactions with the CUDA Driver API"). The context stays for the life of the
/// process, like those of the runtime. Thread-safe.
cudaError_t push_context(int device) noexcept;

/// Undoes the last `push_context` of this thread.
void pop_context() noexcept;

/// Returns whether the device has a primary context, that is, whether this process uses it. Creates none.
/// Returns false if the driver cannot tell. Thread-safe.
bool has_context(int device) noexcept;

/// Sets `bytes` to the free memory of a device. A context created for the query (some hundred MiB) is
/// released again. Returns an error if the device cannot be used. Thread-safe.
cudaError_t free_memory(int device, std::size_t& bytes) noexcept;

}  // namespace h5feed::gpu
