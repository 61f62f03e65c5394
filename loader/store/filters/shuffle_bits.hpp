// SPDX-License-Identifier: Apache-2.0
// The bit transposition of HDF5 filter 32008: all lowest bits of the elements' first bytes, then all
// second bits, and so on through the bytes (Masui et al. 2015, "A compression scheme for radio data in
// high performance computing").
#pragma once

#include <cstddef>
#include <span>

#include "store/filters/shuffle.hpp"

namespace h5feed {

/// Groups the bits of `in`, a multiple of 8 elements of `element_bytes` each. `out` and `work` have the
/// size of `in`; no two of the spans overlap.
void shuffle_bits(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                  std::span<std::byte> work) noexcept;

/// The inverse, by SIMD as far as `level` says, which is at most `simd_level()`.
void unshuffle_bits(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                    std::span<std::byte> work, SimdLevel level = simd_level()) noexcept;

}  // namespace h5feed
