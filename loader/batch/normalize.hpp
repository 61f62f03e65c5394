// (x · scale − mean) / std with every parameter filled in.
#pragma once

#include <cstdint>
#include <vector>

#include "base/float_bits.hpp"
#include "h5feed/export.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Checked parameters: one mean and std per channel.
struct NormalizeParameters {
  double scale = 1;
  std::vector<double> mean;
  std::vector<double> std;

  /// In float64; the caller rounds once.
  double apply(double x, std::uint64_t channel) const noexcept {
    return (x * scale - mean[channel]) / std[channel];
  }
};

/// Fills in defaults for data of `dtype` with `channels`. Throws OptionError: another number of values
/// than 1 or `channels`, a std of 0, a value that is not finite.
NormalizeParameters resolve_normalize(const Normalize& normalize, DType dtype, std::uint64_t channels);

/// The value of a type that is nearest to a float64, ties to even. For float, F16, BF16 and double.
template <typename To>
To rounded_once(double value) noexcept;

/// For uint8 data: entry [channel · 256 + x] is the To nearest to the float64 result.
template <typename To = float>
std::vector<To> normalize_table(const NormalizeParameters& parameters) {
  std::vector<To> table;
  for (std::uint64_t c = 0; c < parameters.mean.size(); ++c) {
    for (int x = 0; x < 256; ++x) table.push_back(rounded_once<To>(parameters.apply(x, c)));
  }
  return table;
}

}  // namespace h5feed
