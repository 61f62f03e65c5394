// SPDX-License-Identifier: Apache-2.0
// Regular selections of elements, as the mappings of virtual datasets have them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace h5feed {

/// Indices along one dimension: `count` blocks of `block` consecutive indices, whose beginnings are `stride`
/// apart, from `start` on (HDF5 reference, "H5Sselect_hyperslab"). They are numbered from 0 in rising order.
/// All functions but `valid` require `valid()`.
struct SelectedIndices {
  std::uint64_t start = 0;
  std::uint64_t stride = 1;
  std::uint64_t count = 1;
  std::uint64_t block = 1;

  /// Returns indices [first, first + number).
  static SelectedIndices run_of(std::uint64_t first, std::uint64_t number) noexcept {
    return {.start = first, .stride = number, .count = 1, .block = number};
  }

  /// Returns whether there is an index, no two blocks overlap, and all indices are below 2^62.
  bool valid() const noexcept {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    if (count == 0 || block == 0 || start >= kMost || block > kMost - start) return false;
    return count == 1 || (stride >= block && count - 1 <= (kMost - start - block) / stride);
  }

  /// Returns how many indices there are.
  std::uint64_t extent() const noexcept { return count * block; }
  /// Returns index number `number` < extent().
  std::uint64_t at(std::uint64_t number) const noexcept {
    return start + number / block * stride + number % block;
  }
  /// Returns the end of the last block.
  std::uint64_t end() const noexcept { return at(extent() - 1) + 1; }
  /// Returns how many of the indices are below `index`, which is the number of the first that is not.
  std::uint64_t below(std::uint64_t index) const noexcept {
    if (index <= start) return 0;
    if (count == 1) return std::min(index - start, block);
    const std::uint64_t blocks = (index - start) / stride;
    return blocks >= count ? extent() : blocks * block + std::min((index - start) % stride, block);
  }
  /// Returns whether the indices have no gap.
  bool consecutive() const noexcept { return count == 1 || stride == block; }
  /// Returns whether these are the indices [0, number).
  bool covers(std::uint64_t number) const noexcept {
    return consecutive() && start == 0 && extent() == number;
  }
  /// Returns how many indices from number `number` on follow each other without a gap.
  std::uint64_t run_from(std::uint64_t number) const noexcept {
    return consecutive() ? extent() - number : block - number % block;
  }
};

/// Elements of an array: those whose index is selected in every dimension, in row-major order.
using Selection = std::vector<SelectedIndices>;

}  // namespace h5feed
