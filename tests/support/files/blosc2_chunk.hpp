// SPDX-License-Identifier: Apache-2.0
// Builds chunks of HDF5 filter 32026 (blosc2), for which h5feed has no encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace h5feed::test {

/// Parameters that a writer of blosc2 chunks chooses.
struct Blosc2SetUp {
  std::vector<std::int32_t>
      shape;  ///< extents of the chunk; empty: stored without its extents, in one dimension
  std::vector<std::int32_t> block;  ///< extents of the blocks of an array
  std::int32_t element_bytes = 1;
  int codec = 1;   ///< 0 blosclz, 1 lz4, 2 lz4hc, 4 zlib, 5 zstd
  int filter = 1;  ///< 0 none, 1 shuffle, 2 bitshuffle, 3 delta, 4 truncated precision
  int level = 5;
};

/// Returns a stored chunk: a frame as the filter's plugin writes it. Throws std::runtime_error if libblosc2
/// refuses.
std::vector<std::byte> blosc2_chunk(const Blosc2SetUp& set_up, std::span<const std::byte> values);

}  // namespace h5feed::test
