// SPDX-License-Identifier: Apache-2.0
#include "h5feed/dtype.hpp"

#include <array>

namespace h5feed {
namespace {

struct Entry {
  DType dtype;
  std::size_t bytes;
  bool integer;
  std::string_view name;
  std::string_view numpy_name;
};

// In the order of the enumeration, so that a DType indexes it.
constexpr std::array<Entry, 12> kTypes = {{
    {DType::u8, 1, true, "u8", "uint8"},
    {DType::i8, 1, true, "i8", "int8"},
    {DType::u16, 2, true, "u16", "uint16"},
    {DType::i16, 2, true, "i16", "int16"},
    {DType::u32, 4, true, "u32", "uint32"},
    {DType::i32, 4, true, "i32", "int32"},
    {DType::u64, 8, true, "u64", "uint64"},
    {DType::i64, 8, true, "i64", "int64"},
    {DType::f16, 2, false, "f16", "float16"},
    {DType::f32, 4, false, "f32", "float32"},
    {DType::f64, 8, false, "f64", "float64"},
    {DType::bf16, 2, false, "bf16", "bfloat16"},
}};

const Entry& entry(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) noexcept { return entry(dtype).bytes; }
std::string_view name_of(DType dtype) noexcept { return entry(dtype).name; }
bool is_integer(DType dtype) noexcept { return entry(dtype).integer; }

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const Entry& candidate : kTypes) {
    if (name == candidate.name || name == candidate.numpy_name) return candidate.dtype;
  }
  return std::nullopt;
}

}  // namespace h5feed
