// SPDX-License-Identifier: Apache-2.0
// Conversion and collation of values on their way into a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace h5feed {

/// Normalization: out = (x · scale − mean) / std, per channel. Computed in float64 and rounded once to the
/// delivered type; uint8 uses a table of 256 values per channel, so every result is correctly rounded.
struct Normalize {
  /// Factor applied to every stored value. Default: 1/255 for uint8 data, 1 for every other type.
  std::optional<double> scale;
  /// Mean after scaling: one value for all channels, or one per channel. Empty: 0.
  std::vector<double> mean;
  /// Standard deviation after scaling: one value for all channels, or one per channel; must not contain 0.
  /// Empty: 1.
  std::vector<double> std;
};

/// How the samples of a field form one tensor of a batch of B samples. `stack`: all samples have the same
/// shape; (B,…). `pad`: samples differ in their first dimension and are padded with zeros to the longest of
/// the batch; (B,L,…), with their lengths in `BatchField::lengths`. `ragged`: samples are concatenated; (sum
/// of lengths,…), with the start of each in `BatchField::offsets`.
enum class Collate : std::uint8_t { stack, pad, ragged };

}  // namespace h5feed
