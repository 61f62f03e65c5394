// SPDX-License-Identifier: Apache-2.0
// Extents of datasets in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace h5feed::test {

/// Extents of a dataset or chunk.
using Shape = std::vector<std::uint64_t>;

/// The largest extent of a dimension that may grow without limit; libhdf5's H5S_UNLIMITED.
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

/// Returns the number of elements of a shape; 1 for a scalar.
inline std::uint64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

}  // namespace h5feed::test
