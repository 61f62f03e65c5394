// SPDX-License-Identifier: Apache-2.0
// Counters of one repetition of a row of `bench`.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/program/resources.hpp"

namespace h5feed::cli {

/// Counters of the loaders that made up one repetition.
struct Repetition {
  double seconds = 0;  // seconds from before each loader's construction to its last batch
  double wait_s = 0;
  std::uint64_t samples = 0;
  std::uint64_t decoded_bytes = 0;  // decoded or read directly, of data and of a target that is not resident
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  std::uint64_t rows_direct = 0;
  std::uint64_t read_calls = 0;
  std::uint64_t read_bytes = 0;  // from the file
  ResourceUsage usage;
  std::uint64_t peak_rss_bytes = 0;
  double epoch_share = 1;  // below 1 if the time was too short for an epoch
  std::vector<double> first_batch_ms;
  std::uint64_t cached_samples = 0;  // samples delivered by epochs in which nothing was decoded
  double cached_s = 0;
  std::uint64_t later_samples = 0;  // samples after the batches that were prepared before the first was taken
  double later_s = 0;

  std::uint64_t samples_skipped = 0, samples_replaced = 0;

  double samples_per_s() const { return static_cast<double>(samples) / seconds; }
  double read_bytes_per_s() const { return static_cast<double>(read_bytes) / seconds; }
  double decoded_bytes_per_s() const { return static_cast<double>(decoded_bytes) / seconds; }
};

}  // namespace h5feed::cli
