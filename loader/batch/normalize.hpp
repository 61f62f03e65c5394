// (x · scale − mean) / std with every parameter filled in.
#pragma once

#include <cstdint>
#include <vector>

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

/// For uint8 data: entry [channel · 256 + x] is the float32 nearest to the float64 result.
std::vector<float> normalize_table(const NormalizeParameters& parameters);

}  // namespace h5feed
