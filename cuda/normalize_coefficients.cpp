#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/normalize.hpp"
#include "cuda/normalize_core.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {
namespace {

// The nearest value with `digits` binary digits, ties to even, above the smallest exponent of the type.
// Scaling by powers of two is exact, so that this is the only rounding.
double rounded_to(double value, int digits, int min_exponent) noexcept {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const int shift = digits - 1 - exponent;
  return std::ldexp(std::nearbyint(std::ldexp(value, shift)), -shift);
}

template <typename To>
To rounded_once(double value) noexcept;
template <>
float rounded_once<float>(double value) noexcept {
  return static_cast<float>(value);
}
template <>
F16 rounded_once<F16>(double value) noexcept {
  return to_f16(static_cast<float>(rounded_to(value, 11, -14)));
}
template <>
BF16 rounded_once<BF16>(double value) noexcept {
  return to_bf16(static_cast<float>(rounded_to(value, 8, -126)));
}

template <typename To>
std::vector<std::byte> table_of(const NormalizeParameters& parameters) {
  const std::size_t channels = parameters.mean.size();
  std::vector<std::byte> bytes(channels * 256 * sizeof(To));
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t x = 0; x < 256; ++x) {
      const To entry = rounded_once<To>(parameters.apply(static_cast<double>(x), c));
      std::memcpy(bytes.data() + (c * 256 + x) * sizeof(To), &entry, sizeof(To));
    }
  }
  return bytes;
}

// Whether rounding to float32 keeps the value to 24 digits.
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
                      "float32, in which the "
                      "GPU computes; choose values nearer to 1, or device = \"cpu\"",
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
                      from == DType::f32;
  return source && (to == DType::f32 || to == DType::f16 || to == DType::bf16);
}

std::vector<std::byte> normalize_coefficients(const NormalizeParameters& parameters, DType from, DType to) {
  if (!can_normalize(from, to)) {
    throw OptionError(fmt::format(
        "the GPU does not normalize {} to {}; it takes u8, u16, i16, f16, f32 and gives f32, f16, bf16",
        name_of(from), name_of(to)));
  }
  if (from != DType::u8) return factors_of(parameters);
  if (to == DType::f16) return table_of<F16>(parameters);
  if (to == DType::bf16) return table_of<BF16>(parameters);
  return table_of<float>(parameters);
}

}  // namespace h5feed::gpu
