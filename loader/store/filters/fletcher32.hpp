// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 3: a checksum in 4 bytes behind the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Fletcher's checksum over big-endian 16-bit words, an odd last byte padded with zero. Sums are
/// reduced by folding the carry, as libhdf5 does it: a remainder modulo 65535 differs where a sum is
/// a multiple of it (0xffff here, 0 there).
std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept;

/// Whether `stored` is the checksum of `bytes`; also takes the form with swapped bytes in each half
/// that libhdf5 before 1.6.3 wrote on little-endian hosts.
bool fletcher32_matches(std::span<const std::byte> bytes, std::uint32_t stored) noexcept;

}  // namespace h5feed
