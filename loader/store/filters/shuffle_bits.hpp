// SPDX-License-Identifier: Apache-2.0
// The bit transposition of HDF5 filter 32008: all lowest bits of the elements' first bytes, then all
// second bits, and so on through the bytes (Masui et al. 2015, "A compression scheme for radio data in
// high performance computing").
#pragma once

#include <cstddef>
#include <span>

#include "store/filters/shuffle.hpp"

namespace h5feed {

/// Bit shuffle: groups the bits of `in`, which has a multiple of 8 elements of `element_bytes` bytes each.
/// `out` and `work` must have the size of `in`; no two of the spans may overlap.
void shuffle_bits(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                  std::span<std::byte> work) noexcept;

/// Undoes `shuffle_bits`, with the instruction set `level`, which is at most `simd_level()`. `out` and `work`
/// must have the size of `in`; no two of the spans may overlap.
void unshuffle_bits(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                    std::span<std::byte> work, SimdLevel level = simd_level()) noexcept;

}  // namespace h5feed
