// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 2: all first bytes of the elements, then all second bytes, and so on. Bytes after the
// last whole element are copied as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Instruction sets that the shuffles have code for, each containing the ones before it.
enum class SimdLevel : std::uint8_t { none, sse2, avx2 };

/// The most that this CPU executes.
SimdLevel simd_level() noexcept;

/// Groups the bytes of `in` by their place in the element. `out.size()` equals `in.size()`; the spans
/// do not overlap; `element_bytes` is at least 1.
void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out) noexcept;

/// The inverse, by SIMD where an element has 2, 4 or 8 bytes. `level` is at most `simd_level()`: none is
/// what the others are tested against.
void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                     SimdLevel level = simd_level()) noexcept;

}  // namespace h5feed
