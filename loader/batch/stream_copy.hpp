// Copies that leave the processor's caches to those who need them.
#pragma once

#include <cstddef>

namespace h5feed {

/// As memcpy, past the caches (non-temporal stores; Intel SDM vol. 1, "Cacheability Control") where the
/// processor has them: for bytes that will long be gone from the caches when they are read. Ordered
/// before what the calling thread does next. Any alignment and size; slower than memcpy for small ones.
void stream_copy(const std::byte* from, std::byte* to, std::size_t bytes) noexcept;

}  // namespace h5feed
