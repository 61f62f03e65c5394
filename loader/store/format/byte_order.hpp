// SPDX-License-Identifier: Apache-2.0
// Numbers between the file's byte order and the host's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Whether the host stores a number's most significant byte first.
inline constexpr bool kHostIsBigEndian = std::endian::native == std::endian::big;

/// Reverses the bytes of each element in place. `element_bytes` is 1, 2, 4 or 8; bytes after the last
/// whole element stay. Thread-safe on distinct spans.
void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes) noexcept;

/// The unsigned number that up to 8 bytes hold, least significant byte first, as in HDF5's own structures.
std::uint64_t little_endian(std::span<const std::byte> bytes) noexcept;

}  // namespace h5feed
