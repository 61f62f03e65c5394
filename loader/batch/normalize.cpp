#include "batch/normalize.hpp"

#include <fmt/format.h>

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
        fmt::format("normalize.{} has {} values, the data has {} {}; give one value, or one a channel", name,
                    values.size(), channels, channels == 1 ? "channel" : "channels"));
  }
  for (const double value : values) {
    if (!std::isfinite(value))
      throw OptionError(fmt::format("normalize.{} must be finite; got {}", name, value));
  }
  if (values.size() == 1) return std::vector<double>(channels, values.front());
  return values;
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

std::vector<float> normalize_table(const NormalizeParameters& parameters) {
  const std::size_t channels = parameters.mean.size();
  std::vector<float> table(channels * 256);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t x = 0; x < 256; ++x) {
      table[c * 256 + x] = static_cast<float>(parameters.apply(static_cast<double>(x), c));
    }
  }
  return table;
}

}  // namespace h5feed
