// HDF5 filter 2: all first bytes of the elements, then all second bytes, and so on. Bytes after the
// last whole element are copied as they are.
#pragma once

#include <cstddef>
#include <span>

namespace h5feed {

/// Groups the bytes of `in` by their place in the element. `out.size()` equals `in.size()`; the spans
/// do not overlap; `element_bytes` is at least 1.
void shuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                   std::span<std::byte> out) noexcept;

/// The inverse, by SIMD where an element has 2, 4 or 8 bytes.
void unshuffle_bytes(std::span<const std::byte> in, std::size_t element_bytes,
                     std::span<std::byte> out) noexcept;

/// The inverse, byte by byte, for any element size: what the SIMD variants are tested against.
void unshuffle_bytes_scalar(std::span<const std::byte> in, std::size_t element_bytes,
                            std::span<std::byte> out) noexcept;

}  // namespace h5feed
