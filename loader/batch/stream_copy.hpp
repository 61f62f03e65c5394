// SPDX-License-Identifier: Apache-2.0
// Non-temporal copies.
#pragma once

#include <cstddef>

namespace h5feed {

/// Copies `bytes` bytes like memcpy, but past the processor's caches (non-temporal stores; Intel SDM vol. 1,
/// "Cacheability Control"): for data that will have left the caches before it is read. Without SSE2 it is
/// memcpy. Ordered before later stores of the calling thread. Any alignment and size; slower than memcpy for
/// small sizes.
void stream_copy(const std::byte* from, std::byte* to, std::size_t bytes) noexcept;

}  // namespace h5feed
