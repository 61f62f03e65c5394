// SPDX-License-Identifier: Apache-2.0
// The row stores of the process, for allocators that run short of GPU memory.
#pragma once

namespace h5feed::gpu {

class RowStore;

/// Adds a store to the list of a device. Thread-safe. Throws std::bad_alloc.
void list_row_store(int device, RowStore& store);
/// Removes a store from the list; waits while `keep_memory_free` of <h5feed/gpu.hpp> uses it. Thread-safe.
void unlist_row_store(int device, RowStore& store) noexcept;

}  // namespace h5feed::gpu
