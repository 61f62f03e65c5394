// SPDX-License-Identifier: Apache-2.0
// 16-bit floats as bits: IEEE 754 binary16 and bfloat16 (the upper half of a binary32). Conversions round to
// nearest, ties to even, with equal results on CPU and GPU; the GPU uses its own instructions if it has them.
// A NaN stays a NaN, but its payload may differ between CPU and GPU.
#pragma once

#include <bit>
#include <cstdint>

#include "base/cuda_macros.hpp"

namespace h5feed {

/// The bits of an IEEE 754 binary16.
struct F16 {
  std::uint16_t bits;
};

/// The bits of a bfloat16.
struct BF16 {
  std::uint16_t bits;
};

/// Returns the bits of a binary32.
H5FEED_HOST_DEVICE inline std::uint32_t bits_of(float value) noexcept {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

/// Returns the binary32 that has these bits.
H5FEED_HOST_DEVICE inline float float_of(std::uint32_t bits) noexcept {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

/// Converts binary16 to float exactly.
H5FEED_HOST_DEVICE inline float to_float(F16 half) noexcept {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
#else
  const std::uint32_t sign = (half.bits & 0x8000u) << 16;
  const std::uint32_t exponent = half.bits >> 10 & 0x1Fu;
  const std::uint32_t mantissa = half.bits & 0x3FFu;
  if (exponent == 0) {
    constexpr float kSmallest = 0x1p-24F;  // the smallest subnormal binary16
    return float_of(bits_of(static_cast<float>(mantissa) * kSmallest) | sign);
  }
  if (exponent == 0x1F) return float_of(sign | 0x7F800000u | mantissa << 13);
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
#endif
}

/// Converts bfloat16 to float exactly.
H5FEED_HOST_DEVICE inline float to_float(BF16 value) noexcept {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to the nearest binary16. Magnitudes from 65520 on become infinity, a NaN becomes a quiet NaN.
H5FEED_HOST_DEVICE inline F16 to_f16(float value) noexcept {
#ifdef __CUDA_ARCH__
  F16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
  return half;
#else
  constexpr std::uint32_t kInfinity = 0x7F800000u;
  const std::uint32_t all = bits_of(value);
  const auto sign = static_cast<std::uint16_t>(all >> 16 & 0x8000u);
  const std::uint32_t magnitude = all & 0x7FFFFFFFu;
  if (magnitude > kInfinity) return {static_cast<std::uint16_t>(sign | 0x7E00u)};
  if (magnitude >= 0x47800000u) return {static_cast<std::uint16_t>(sign | 0x7C00u)};
  if (magnitude < 0x38800000u) {
    // Below the smallest normal binary16: the last bit of 0.5 has the value of the smallest subnormal
    // binary16, so that the addition itself rounds.
    const float shifted = float_of(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (bits_of(shifted) - 0x3F000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return {static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13)};
#endif
}

/// Rounds to the nearest bfloat16. A NaN becomes a quiet NaN.
H5FEED_HOST_DEVICE inline BF16 to_bf16(float value) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  BF16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  const std::uint32_t all = bits_of(value);
  if ((all & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>(all >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((all + 0x7FFFu + (all >> 16 & 1u)) >> 16)};
#endif
}

}  // namespace h5feed
