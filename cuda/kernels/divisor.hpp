// SPDX-License-Identifier: Apache-2.0
// Fast division by numbers that are known before a kernel starts.
#pragma once

#include <cstdint>

#include "base/cuda_macros.hpp"

namespace h5feed::gpu {

template <typename Index>
struct Split {
  Index whole;
  Index rest;
};

/// Divides numbers of type Index by a constant value, with the ordinary division.
template <typename Index>
class Divisor {
 public:
  /// Requires `value` > 0.
  explicit Divisor(std::uint64_t value) noexcept : value_(static_cast<Index>(value)) {}

  H5FEED_HOST_DEVICE Index value() const noexcept { return value_; }
  H5FEED_HOST_DEVICE Split<Index> split(Index number) const noexcept {
    return {number / value_, number % value_};
  }

 private:
  Index value_;
};

/// Divides by a multiplication and a shift; the GPU's own division takes some 20 instructions. Exact for
/// numbers below 2^31: T. Granlund, P. L. Montgomery, "Division by Invariant Integers using Multiplication",
/// PLDI 1994, theorem 4.2 with N = 31 and l = ⌈log2 value⌉.
template <>
class Divisor<std::uint32_t> {
 public:
  /// Requires 0 < `value` < 2^31.
  explicit Divisor(std::uint64_t value) noexcept : value_(static_cast<std::uint32_t>(value)) {
    while (std::uint64_t{1} << (shift_ - 31) < value) ++shift_;
    factor_ = static_cast<std::uint32_t>((std::uint64_t{1} << shift_) / value + 1);
  }

  H5FEED_HOST_DEVICE std::uint32_t value() const noexcept { return value_; }

  /// Returns quotient and remainder. Requires `number` < 2^31.
  H5FEED_HOST_DEVICE Split<std::uint32_t> split(std::uint32_t number) const noexcept {
    const auto whole = static_cast<std::uint32_t>(std::uint64_t{number} * factor_ >> shift_);
    return {whole, number - whole * value_};
  }

 private:
  std::uint32_t value_;
  std::uint32_t factor_;
  std::uint32_t shift_ = 31;
};

}  // namespace h5feed::gpu
