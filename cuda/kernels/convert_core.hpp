// SPDX-License-Identifier: Apache-2.0
// Conversion of labels between numeric types, for CPU and GPU. Gives the same results as
// loader/batch/row_kernel; in addition converts to f16 and bf16.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "base/cuda_macros.hpp"
#include "base/float_bits.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed::gpu {

namespace detail {

template <typename To, typename From>
H5FEED_HOST_DEVICE To converted(From value) noexcept {
  constexpr bool kFromFloat = std::is_floating_point_v<From>;
  if constexpr (kFromFloat && std::is_integral_v<To>) {
    // 2^digits is exact in every float type; the largest integer itself need not be. Values that the integer
    // type cannot hold, NaN included, become 0.
    constexpr auto kLimit = static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    constexpr From kLowest = std::is_signed_v<To> ? -kLimit : From{0};
    return value >= kLowest && value < kLimit ? static_cast<To>(value) : To{0};
  } else {
    return static_cast<To>(value);
  }
}

template <typename From>
H5FEED_HOST_DEVICE void store_as(From value, DType to, void* out, std::int64_t index) noexcept {
  switch (to) {
    case DType::u8:
      static_cast<std::uint8_t*>(out)[index] = converted<std::uint8_t>(value);
      break;
    case DType::i8:
      static_cast<std::int8_t*>(out)[index] = converted<std::int8_t>(value);
      break;
    case DType::u16:
      static_cast<std::uint16_t*>(out)[index] = converted<std::uint16_t>(value);
      break;
    case DType::i16:
      static_cast<std::int16_t*>(out)[index] = converted<std::int16_t>(value);
      break;
    case DType::u32:
      static_cast<std::uint32_t*>(out)[index] = converted<std::uint32_t>(value);
      break;
    case DType::i32:
      static_cast<std::int32_t*>(out)[index] = converted<std::int32_t>(value);
      break;
    case DType::u64:
      static_cast<std::uint64_t*>(out)[index] = converted<std::uint64_t>(value);
      break;
    case DType::i64:
      static_cast<std::int64_t*>(out)[index] = converted<std::int64_t>(value);
      break;
    case DType::f16:
      static_cast<F16*>(out)[index] = to_f16(static_cast<float>(value));
      break;
    case DType::bf16:
      static_cast<BF16*>(out)[index] = to_bf16(static_cast<float>(value));
      break;
    case DType::f32:
      static_cast<float*>(out)[index] = converted<float>(value);
      break;
    case DType::f64:
      static_cast<double*>(out)[index] = converted<double>(value);
      break;
  }
}

}  // namespace detail

/// Converts element `index` of `in`, of type `from`, to element `index` of `out`, of type `to`. Integers wrap
/// as in C++, floats lose their fraction, and floats that the integer type cannot hold, NaN included, become
/// 0. Conversions to f16 and bf16 go through float. For the few labels of a batch, the switch costs little
/// compared with the launch and saves one kernel per pair of types.
H5FEED_HOST_DEVICE inline void convert_element(DType from, const void* in, DType to, void* out,
                                               std::int64_t index) noexcept {
  switch (from) {
    case DType::u8:
      return detail::store_as(static_cast<const std::uint8_t*>(in)[index], to, out, index);
    case DType::i8:
      return detail::store_as(static_cast<const std::int8_t*>(in)[index], to, out, index);
    case DType::u16:
      return detail::store_as(static_cast<const std::uint16_t*>(in)[index], to, out, index);
    case DType::i16:
      return detail::store_as(static_cast<const std::int16_t*>(in)[index], to, out, index);
    case DType::u32:
      return detail::store_as(static_cast<const std::uint32_t*>(in)[index], to, out, index);
    case DType::i32:
      return detail::store_as(static_cast<const std::int32_t*>(in)[index], to, out, index);
    case DType::u64:
      return detail::store_as(static_cast<const std::uint64_t*>(in)[index], to, out, index);
    case DType::i64:
      return detail::store_as(static_cast<const std::int64_t*>(in)[index], to, out, index);
    case DType::f16:
      return detail::store_as(to_float(static_cast<const F16*>(in)[index]), to, out, index);
    case DType::bf16:
      return detail::store_as(to_float(static_cast<const BF16*>(in)[index]), to, out, index);
    case DType::f32:
      return detail::store_as(static_cast<const float*>(in)[index], to, out, index);
    case DType::f64:
      return detail::store_as(static_cast<const double*>(in)[index], to, out, index);
  }
}

}  // namespace h5feed::gpu
