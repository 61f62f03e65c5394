// SPDX-License-Identifier: Apache-2.0
// The contiguous frame ("cframe") in which HDF5 filter 32026 stores a chunk. Internal to the filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace h5feed {

/// A frame of one Blosc2 chunk. Borrows the bytes that it was read from.
struct Blosc2Frame {
  std::span<const std::byte> chunk;  ///< The stored chunk, with its header
  std::span<const std::byte>
      offsets;              ///< A stored chunk of one offset, which tells what an empty `chunk` holds
  std::uint64_t bytes = 0;  ///< Decoded bytes of the chunk
  std::uint64_t element_bytes = 1;
  /// The array that the chunk holds block by block, each block whole: its shape, what its blocks cover, and
  /// their shape. All empty for a chunk that holds the values in their order.
  std::vector<std::uint64_t> shape, covered, block;
};

/// Reads the header of a frame ("Blosc2 Contiguous Frame Format" and "b2nd metalayer",
/// README_CFRAME_FORMAT.rst and README_B2ND_METALAYER.rst of c-blosc2). Decodes nothing. Throws FilterError
/// unless all lengths are within `in` and the blocks, which are at least 1 and at most 8 dimensions, add up
/// to `bytes`.
Blosc2Frame read_blosc2_frame(std::span<const std::byte> in);

/// Returns whether the blocks of an array, one after the other, are the array in its order.
bool blocks_in_order(const Blosc2Frame& frame) noexcept;

/// Returns whether versions of libblosc2 disagree on where the values of the array are. Some (2.17 among
/// them) take certain blocks for being in the array's order, store it as it is, and read what other versions
/// wrote as if it were (issue 691 of c-blosc2). The file does not tell which version wrote it.
bool blocks_are_ambiguous(const Blosc2Frame& frame) noexcept;

/// Returns an upper bound of the bytes of an array with the extents `shape` that is stored in whole blocks,
/// as the filter's writers choose these.
std::uint64_t padded_blosc2_bytes(std::span<const std::uint64_t> shape, std::uint64_t element_bytes) noexcept;

}  // namespace h5feed
