// SPDX-License-Identifier: Apache-2.0
// What becomes of values on their way into a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace h5feed {

/// out = (x · scale − mean) / std, per channel. Computed in float64 and rounded once to `output_dtype`; for
/// uint8 by a table of 256 values a channel, hence correctly rounded for every input.
struct Normalize {
  /// Default: 1/255 for uint8 data, 1 for every other type.
  std::optional<double> scale;
  /// One value for all channels, or one a channel; empty = 0.
  std::vector<double> mean;
  /// As `mean`; empty = 1. Must not contain 0.
  std::vector<double> std;
};

/// How a field's samples become one tensor of a batch of B samples. `stack`: all samples have the same shape,
/// (B,…). `pad`: samples differ in their first dimension and are filled with zeros to the longest of the
/// batch, (B,L,…), with the `lengths` beside. `ragged`: samples one behind the other, (sum of lengths,…),
/// with the `offsets` where each begins.
enum class Collate : std::uint8_t { stack, pad, ragged };

}  // namespace h5feed
