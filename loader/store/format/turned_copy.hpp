// SPDX-License-Identifier: Apache-2.0
// Copies of arrays with their dimensions exchanged and mirrored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Source of one dimension of a turned copy.
struct TurnedDimension {
  std::size_t from = 0;   ///< Dimension of the source, which has the same extent
  bool mirrored = false;  ///< Whether it runs backwards
};

/// Copies a row-major array of `shape`; `dimensions` takes each dimension of the source once. `from` and `to`
/// do not overlap.
void turned_copy(std::span<const std::uint64_t> shape, std::span<const TurnedDimension> dimensions,
                 std::size_t element_bytes, const std::byte* from, std::byte* to);

}  // namespace h5feed
