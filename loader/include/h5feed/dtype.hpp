// SPDX-License-Identifier: Apache-2.0
// Element types of samples and batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "h5feed/export.hpp"

namespace h5feed {

/// Numeric element types. Values in memory are in the byte order of the host. `f16` is IEEE binary16; `bf16`
/// is bfloat16, the upper half of an f32.
enum class DType : std::uint8_t { u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64, bf16 };

/// Returns the bytes of one element.
H5FEED_EXPORT std::size_t size_of(DType dtype) noexcept;

/// Returns the short name, as used in messages and on the command line: "u8", "i64", "f32".
H5FEED_EXPORT std::string_view name_of(DType dtype) noexcept;

/// Returns the type with this short name ("u8") or NumPy name ("uint8", "float32"); empty if unknown.
H5FEED_EXPORT std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// Returns whether the type is a signed or unsigned integer.
H5FEED_EXPORT bool is_integer(DType dtype) noexcept;

/// Returns the DType of a C++ arithmetic type, which may be const. Does not compile for bool. f16 and bf16
/// have no C++20 type.
template <typename T>
constexpr DType dtype_of() noexcept {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<std::remove_const_t<T>, bool>,
                "no DType for this type");
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "no DType for this type");
    return sizeof(T) == 4 ? DType::f32 : DType::f64;
  } else {
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return kSigned ? DType::i8 : DType::u8;
      case 2:
        return kSigned ? DType::i16 : DType::u16;
      case 4:
        return kSigned ? DType::i32 : DType::u32;
      default:
        return kSigned ? DType::i64 : DType::u64;
    }
  }
}

}  // namespace h5feed
