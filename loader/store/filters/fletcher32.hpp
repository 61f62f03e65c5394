// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 3: a 4-byte checksum after the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Returns Fletcher's checksum over big-endian 16-bit words, an odd last byte padded with zero. Sums are
/// reduced by folding the carry, as in libhdf5; a remainder modulo 65535 would differ if a sum is a multiple
/// of 65535 (0xffff here, 0 there).
std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept;

/// Returns whether `stored` is the checksum of `bytes`. Also accepts the bytes of each half swapped, which
/// libhdf5 before 1.6.3 wrote on little-endian hosts.
bool fletcher32_matches(std::span<const std::byte> bytes, std::uint32_t stored) noexcept;

}  // namespace h5feed
