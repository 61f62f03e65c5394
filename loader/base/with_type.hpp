// SPDX-License-Identifier: Apache-2.0
// From a DType to the C++ type of its values.
#pragma once

#include <cstdint>

#include "base/float_bits.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed {

/// Calls `f` with a value of the C++ type of `dtype`, for its type only: `F16` and `BF16` stand for what
/// C++20 lacks. Returns what `f` returns.
template <typename F>
auto with_type_of(DType dtype, F&& f) {
  switch (dtype) {
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::f16:
      return f(F16{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BF16{});
    case DType::f64:
      break;
  }
  return f(double{});
}

}  // namespace h5feed
