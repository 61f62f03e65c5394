// SPDX-License-Identifier: Apache-2.0
// Predicts by a small simulation how often a cache of rows has chunks decoded.
#pragma once

#include <cstdint>

#include "h5feed/options.hpp"

namespace h5feed {

/// Parameters of the forecast.
struct RowForecastSpec {
  std::uint64_t num_samples = 1;     ///< Samples per epoch
  std::uint64_t rows_per_chunk = 1;  ///< Samples per chunk
  std::uint64_t batch_size = 1;      ///< Samples per batch
  Shuffle shuffle;
  double held_share = 0;   ///< Fraction of the samples whose rows the cache can hold
  bool whole_rows = true;  ///< No chunk cuts samples: the chunk decoded last serves the next batch as well
};

/// Predicted decodes per chunk.
struct RowForecast {
  double first_epoch = 0;   ///< First epoch, from an empty cache
  double later_epochs = 0;  ///< Mean of the later epochs
  bool rough = false;       ///< Scaled down further than usual: not to be shown
};

/// Simulates three epochs of `CachePolicy::clairvoyant`, one batch at a time. Scales larger datasets down to
/// about 20,000 rows: fewer chunks with as many rows (at most 1,250), and batch, window and cache in
/// proportion. Orders that decode a chunk for every few rows of it would take seconds even so; they are
/// scaled down further, and the result is `rough`. Takes about 0.2 s at most. Throws std::bad_alloc, and what
/// the `InterruptCheck` of this thread throws.
RowForecast forecast_rows(const RowForecastSpec& spec);

}  // namespace h5feed
