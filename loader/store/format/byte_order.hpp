// SPDX-License-Identifier: Apache-2.0
// Elements between the file's byte order and the host's.
#pragma once

#include <cstddef>
#include <span>

namespace h5feed {

/// Reverses the bytes of each element in place. `element_bytes` is 1, 2, 4 or 8; bytes after the last
/// whole element stay. Thread-safe on distinct spans.
void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes) noexcept;

}  // namespace h5feed
