// SPDX-License-Identifier: Apache-2.0
// The normalization (x · scale − mean) / std with all parameters resolved.
#pragma once

#include <cstdint>
#include <vector>

#include "base/float_bits.hpp"
#include "h5feed/export.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Validated parameters with one mean and one std per channel.
struct NormalizeParameters {
  double scale = 1;
  std::vector<double> mean;
  std::vector<double> std;

  /// Returns the normalized value in float64; the caller rounds it once.
  double apply(double x, std::uint64_t channel) const noexcept {
    return (x * scale - mean[channel]) / std[channel];
  }
};

/// Resolves the parameters for data of `dtype` with `channels` channels. Default: scale 1/255 for u8, else 1;
/// mean 0; std 1. Throws OptionError if the number of values is neither 1 nor `channels`, a std is 0, or a
/// value is not finite.
NormalizeParameters resolve_normalize(const Normalize& normalize, DType dtype, std::uint64_t channels);

/// Returns the value of type To that is nearest to a float64, ties to even. Defined for float, F16, BF16 and
/// double.
template <typename To>
To rounded_once(double value) noexcept;

/// Returns the lookup table for u8 data: entry [channel · 256 + x] is the To nearest to the float64 result.
template <typename To = float>
std::vector<To> normalize_table(const NormalizeParameters& parameters) {
  std::vector<To> table;
  for (std::uint64_t c = 0; c < parameters.mean.size(); ++c) {
    for (int x = 0; x < 256; ++x) table.push_back(rounded_once<To>(parameters.apply(x, c)));
  }
  return table;
}

}  // namespace h5feed
