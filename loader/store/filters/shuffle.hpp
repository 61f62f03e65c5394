// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 2: all first bytes of the elements, then all second bytes, and so on. Bytes after the
// last whole element are copied as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Instruction sets that the shuffles are implemented for; each includes the previous ones.
enum class SimdLevel : std::uint8_t { none, sse2, avx2 };

/// Returns the highest level that this CPU supports.
SimdLevel simd_level() noexcept;

/// Byte shuffle: groups the bytes of `in` by their position in the element. `out.size()` must equal
/// `in.size()`; the spans must not overlap; `element_bytes` is at least 1.
void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out) noexcept;

/// Undoes `shuffle_bytes`, with SIMD for elements of 2, 4 or 8 bytes. `out.size()` must equal `in.size()`;
/// the spans must not overlap. `level` is at most `simd_level()`; tests compare the other levels with `none`.
void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                     SimdLevel level = simd_level()) noexcept;

}  // namespace h5feed
