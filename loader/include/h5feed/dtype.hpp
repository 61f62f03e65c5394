// Element types of samples and batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "h5feed/export.hpp"

namespace h5feed {

/// Numeric element types. Values in memory are always in the byte order of the host.
enum class DType : std::uint8_t { u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64 };

/// Bytes of one element.
H5FEED_EXPORT std::size_t size_of(DType dtype) noexcept;

/// Short name, as used in messages and on the command line: "u8", "i64", "f32".
H5FEED_EXPORT std::string_view name_of(DType dtype) noexcept;

/// The inverse of `name_of`; also takes NumPy's names ("uint8", "float32"). Empty if unknown.
H5FEED_EXPORT std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// Whether the type is a signed or unsigned integer.
H5FEED_EXPORT bool is_integer(DType dtype) noexcept;

/// The DType of a C++ arithmetic type. f16 has no C++20 type and therefore no mapping.
template <typename T>
constexpr DType dtype_of() noexcept;

template <>
constexpr DType dtype_of<std::uint8_t>() noexcept {
  return DType::u8;
}
template <>
constexpr DType dtype_of<std::int8_t>() noexcept {
  return DType::i8;
}
template <>
constexpr DType dtype_of<std::uint16_t>() noexcept {
  return DType::u16;
}
template <>
constexpr DType dtype_of<std::int16_t>() noexcept {
  return DType::i16;
}
template <>
constexpr DType dtype_of<std::uint32_t>() noexcept {
  return DType::u32;
}
template <>
constexpr DType dtype_of<std::int32_t>() noexcept {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::uint64_t>() noexcept {
  return DType::u64;
}
template <>
constexpr DType dtype_of<std::int64_t>() noexcept {
  return DType::i64;
}
template <>
constexpr DType dtype_of<float>() noexcept {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() noexcept {
  return DType::f64;
}

}  // namespace h5feed
