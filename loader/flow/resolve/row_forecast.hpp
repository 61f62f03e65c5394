// SPDX-License-Identifier: Apache-2.0
// How often a cache of rows will have chunks decoded: simulated in small before the run.
#pragma once

#include <cstdint>

#include "h5feed/options.hpp"

namespace h5feed {

/// What the forecast depends on.
struct RowForecastSpec {
  std::uint64_t num_samples = 1;
  std::uint64_t rows_per_chunk = 1;
  std::uint64_t batch_size = 1;
  Shuffle shuffle;
  double held_share = 0;  ///< of the samples, whose rows the cache holds
};

/// Decodes per chunk.
struct RowForecast {
  double first_epoch = 0;
  double later_epochs = 0;  ///< in each, on average
};

/// Runs `CachePolicy::clairvoyant` over the order of three epochs, one batch at a time. Larger sets are
/// scaled down to about 20,000 rows: fewer chunks of as many rows (at most 1,250), with batches, windows and
/// cache of the same shares. Takes some 20 ms at most. Throws std::bad_alloc.
RowForecast forecast_rows(const RowForecastSpec& spec);

}  // namespace h5feed
