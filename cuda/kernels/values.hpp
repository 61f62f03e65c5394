// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the normalize kernels: converts one source value to one output value.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/cuda_macros.hpp"
#include "base/float_bits.hpp"

namespace h5feed::gpu {

/// Coefficients of one channel, out = x · factor + offset, for every source type except u8.
struct Coefficient {
  float factor;
  float offset;
};

H5FEED_HOST_DEVICE inline float to_float(std::uint16_t value) noexcept { return static_cast<float>(value); }
H5FEED_HOST_DEVICE inline float to_float(std::int16_t value) noexcept { return static_cast<float>(value); }
H5FEED_HOST_DEVICE inline float to_float(float value) noexcept { return value; }

template <typename To>
H5FEED_HOST_DEVICE To rounded(float value) noexcept;
template <>
H5FEED_HOST_DEVICE inline float rounded<float>(float value) noexcept {
  return value;
}
template <>
H5FEED_HOST_DEVICE inline F16 rounded<F16>(float value) noexcept {
  return to_f16(value);
}
template <>
H5FEED_HOST_DEVICE inline BF16 rounded<BF16>(float value) noexcept {
  return to_bf16(value);
}

/// Converts a source value to an output value of a channel. Factor, offset and the fused multiply-add are
/// rounded once each: |error| ≤ 2^-23 · (|x·scale| + |mean|) / std in float32, unless the result is
/// subnormal; 16-bit outputs add their own rounding.
template <typename From, typename To>
struct Values {
  using Entry = Coefficient;
  static constexpr std::int64_t kEntriesPerChannel = 1;
  const Entry* coefficients;

  H5FEED_HOST_DEVICE To operator()(From x, std::uint32_t channel) const noexcept {
    const Coefficient k = coefficients[channel];
#ifdef __CUDA_ARCH__
    return rounded<To>(__fmaf_rn(to_float(x), k.factor, k.offset));
#else
    return rounded<To>(std::fma(to_float(x), k.factor, k.offset));
#endif
  }
};

/// Converts u8 values with a table: entry [channel · 256 + x] was rounded once from float64.
template <typename To>
struct Values<std::uint8_t, To> {
  using Entry = To;
  static constexpr std::int64_t kEntriesPerChannel = 256;
  const Entry* coefficients;

  H5FEED_HOST_DEVICE To operator()(std::uint8_t x, std::uint32_t channel) const noexcept {
    return coefficients[channel * 256 + x];
  }
};

}  // namespace h5feed::gpu
