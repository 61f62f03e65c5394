// SPDX-License-Identifier: Apache-2.0
#include "batch/normalize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "h5feed/error.hpp"

namespace h5feed {
namespace {

std::vector<double> per_channel(const std::vector<double>& values, double missing, std::uint64_t channels,
                                std::string_view name) {
  if (values.empty()) return std::vector<double>(channels, missing);
  if (values.size() != 1 && values.size() != channels) {
    throw OptionError(
        fmt::format("normalize.{} has {} values, the data has {} {}; give one value, or one per channel",
                    name, values.size(), channels, channels == 1 ? "channel" : "channels"));
  }
  for (const double value : values) {
    if (!std::isfinite(value))
      throw OptionError(fmt::format("normalize.{} must be finite; got {}", name, value));
  }
  if (values.size() == 1) return std::vector<double>(channels, values.front());
  return values;
}

// Returns the nearest value with `digits` binary digits, ties to even; exponents below `min_exponent` are
// subnormal. Scaling by powers of two is exact, so this is the only rounding.
double rounded_to(double value, int digits, int min_exponent) noexcept {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const int shift = digits - 1 - exponent;
  return std::ldexp(std::nearbyint(std::ldexp(value, shift)), -shift);
}

}  // namespace

NormalizeParameters resolve_normalize(const Normalize& normalize, DType dtype, std::uint64_t channels) {
  NormalizeParameters parameters;
  parameters.scale = normalize.scale.value_or(dtype == DType::u8 ? 1.0 / 255 : 1.0);
  if (!std::isfinite(parameters.scale)) {
    throw OptionError(fmt::format("normalize.scale must be finite; got {}", parameters.scale));
  }
  parameters.mean = per_channel(normalize.mean, 0, channels, "mean");
  parameters.std = per_channel(normalize.std, 1, channels, "std");
  for (const double value : parameters.std) {
    if (value == 0) throw OptionError("normalize.std must not be 0; leave the channel unscaled with 1");
  }
  return parameters;
}

template <>
H5FEED_EXPORT double rounded_once<double>(double value) noexcept {
  return value;
}
template <>
H5FEED_EXPORT float rounded_once<float>(double value) noexcept {
  return static_cast<float>(value);
}
template <>
H5FEED_EXPORT F16 rounded_once<F16>(double value) noexcept {
  return to_f16(static_cast<float>(rounded_to(value, 11, -14)));
}
template <>
H5FEED_EXPORT BF16 rounded_once<BF16>(double value) noexcept {
  return to_bf16(static_cast<float>(rounded_to(value, 8, -126)));
}

}  // namespace h5feed
