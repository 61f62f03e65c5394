// SPDX-License-Identifier: Apache-2.0
// Coefficients and tables of the normalize kernels, computed on the CPU.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/values.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Returns the identity table for u8 data.
std::vector<std::byte> same_values(std::size_t channels) {
  std::vector<std::byte> bytes(channels * 256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 256);
  return bytes;
}

// Returns whether rounding to float32 keeps 24 binary digits of the value.
bool in_float_range(double value) noexcept {
  return value == 0 || (std::fabs(value) >= static_cast<double>(std::numeric_limits<float>::min()) &&
                        std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max()));
}

std::vector<std::byte> factors_of(const NormalizeParameters& parameters) {
  const std::size_t channels = parameters.mean.size();
  std::vector<std::byte> bytes(channels * sizeof(Coefficient));
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor = parameters.scale / parameters.std[c];
    const double offset = -parameters.mean[c] / parameters.std[c];
    if (!in_float_range(factor) || !in_float_range(offset)) {
      throw OptionError(
          fmt::format("normalize: scale / std = {} and mean / std = {} of channel {} do not both fit "
                      "float32, in which the GPU computes; choose values nearer to 1, or device = \"cpu\"",
                      factor, -offset, c));
    }
    const Coefficient coefficient{static_cast<float>(factor), static_cast<float>(offset)};
    std::memcpy(bytes.data() + c * sizeof(Coefficient), &coefficient, sizeof(Coefficient));
  }
  return bytes;
}

}  // namespace

bool can_normalize(DType from, DType to) noexcept {
  const bool source = from == DType::u8 || from == DType::u16 || from == DType::i16 || from == DType::f16 ||
                      from == DType::bf16 || from == DType::f32;
  if (to == DType::u8) return from == DType::u8;
  return source && (to == DType::f32 || to == DType::f16 || to == DType::bf16);
}

std::vector<std::byte> normalize_coefficients(const NormalizeParameters& parameters, DType from, DType to) {
  if (!can_normalize(from, to)) {
    throw OptionError(
        fmt::format("the GPU does not normalize {} to {}; it takes u8, u16, i16, f16, bf16, f32 and "
                    "gives f32, f16, bf16, or u8 as u8",
                    name_of(from), name_of(to)));
  }
  if (from != DType::u8) return factors_of(parameters);
  switch (to) {
    case DType::u8:
      return same_values(parameters.mean.size());
    case DType::f16:
      return bytes_of(normalize_table<F16>(parameters));
    case DType::bf16:
      return bytes_of(normalize_table<BF16>(parameters));
    default:
      return bytes_of(normalize_table<float>(parameters));
  }
}

}  // namespace h5feed::gpu
