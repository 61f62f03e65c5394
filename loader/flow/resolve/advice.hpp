// SPDX-License-Identifier: Apache-2.0
// What a choice of shuffle and cache will cost, said before the run.
#pragma once

#include <string>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/conversion.hpp"
#include "flow/resolve/row_forecast.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// How often each chunk of samples will be decoded in an epoch in which the cache is full already. For `lru`
/// and `never` by a formula, for `clairvoyant` by simulation.
double expected_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options);

/// The same for `lru` and data that may not exist yet: `chunks` chunks of `rows_per_chunk` samples and
/// `chunk_bytes`, in batches of `batch_size`.
struct ChunkPattern {
  std::uint64_t chunks = 1;
  std::uint64_t rows_per_chunk = 1;
  std::uint64_t chunk_bytes = 1;
  Shuffle shuffle = {};
  std::uint64_t batch_size = 1;
  std::uint64_t cache_bytes = 0;
};
double lru_decodes_per_chunk(const ChunkPattern& pattern);

/// Whether the next lines can be told: with several ranks each epoch deals a rank other samples, and a
/// sampler does not say beforehand which come.
bool rows_are_foreseeable(const DatasetState& dataset, const ResolvedOptions& options) noexcept;

/// What `CachePolicy::clairvoyant` makes of the same order and `cache_bytes`: about the best that is
/// possible.
RowForecast forecast_rows(const DatasetState& dataset, const ResolvedOptions& options);

/// The same in figures, beside what the cache would need.
PlanReport predict_epoch(const DatasetState& dataset, const ResolvedOptions& options, std::uint64_t batches);

/// One line where mean and std that are meant for values in 0 … 1 meet integers that nothing scales, in the
/// data or in a named field; else empty.
std::string normalize_advice(const DatasetState& dataset, const Conversion& conversion);

/// One line with figures when a chunk will be decoded about twice or more per epoch, else empty.
std::string shuffle_advice(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
