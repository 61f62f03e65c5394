// SPDX-License-Identifier: Apache-2.0
// Predicts what a choice of shuffle and cache costs, before the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/row_forecast.hpp"
#include "flow/values/conversion.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Returns how often each chunk of samples is decoded in an epoch that starts with a full cache: by a formula
/// for `lru` and `keep_first`, by simulation for `clairvoyant`. Throws std::bad_alloc.
double expected_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options);

/// Chunks, order and cache of data that may not exist yet, for `lru_decodes_per_chunk`.
struct ChunkPattern {
  std::uint64_t chunks = 1;          ///< Chunks in the data
  std::uint64_t rows_per_chunk = 1;  ///< Samples per chunk
  std::uint64_t chunk_bytes = 1;     ///< Bytes of one decoded chunk
  Shuffle shuffle = {};
  std::uint64_t batch_size = 1;   ///< Samples per batch
  std::uint64_t cache_bytes = 0;  ///< Capacity of the cache
};

/// Returns how often `lru` decodes each chunk of `pattern` in an epoch that starts with a full cache.
double lru_decodes_per_chunk(const ChunkPattern& pattern);

/// Returns whether `forecast_rows` can predict this order. False with several ranks, because each epoch
/// assigns a rank other samples; for samplers and unordered subsets, whose order is not known in advance; and
/// for tiles and mixtures.
bool rows_are_foreseeable(const DatasetState& dataset, const ResolvedOptions& options) noexcept;

/// Returns the decodes per chunk that `CachePolicy::clairvoyant` would reach with the same order and
/// `cache_bytes`: close to the minimum possible. Meaningful only if `rows_are_foreseeable`. Takes
/// about 0.2 s at most. Throws std::bad_alloc, and what the `InterruptCheck` of this thread throws.
RowForecast forecast_rows(const DatasetState& dataset, const ResolvedOptions& options);

/// Returns `PlanReport::mixing` of the order of `options`.
double mixing_of(const DatasetState& dataset, const ResolvedOptions& options);

/// Returns the predicted cost of an epoch of `batches` batches, excluding repeats, and the cache sizes that
/// would lower it. Throws std::bad_alloc.
PlanReport predict_epoch(const DatasetState& dataset, const ResolvedOptions& options, std::uint64_t batches);

/// Returns a one-line warning if the data or a named field holds integers that are not scaled and is
/// normalized by a mean and std meant for values in 0 … 1; empty otherwise.
std::string normalize_advice(const DatasetState& dataset, const Conversion& conversion);

/// Cost of an order that decodes each chunk about twice or more per epoch, and of cheaper alternatives.
struct ShuffleCost {
  double decodes = 0;  ///< Decodes of each chunk per epoch
  /// Decodes with `CachePolicy::clairvoyant`, if they are much fewer and the forecast is not rough.
  std::optional<double> clairvoyant = {};
  /// K of a `chunk:K` that decodes each chunk once; 0 if there is none with smaller windows.
  std::uint64_t window_chunks = 0;
  double window_mixing = 0;       ///< `PlanReport::mixing` of that order
  std::uint64_t cache_bytes = 0;  ///< Cache with which the chosen order decodes each chunk once
};

/// Returns the cost of the order of `options`; empty if it decodes each chunk fewer than about two times per
/// epoch, or if that is not known in advance. Throws std::bad_alloc.
std::optional<ShuffleCost> shuffle_cost(const DatasetState& dataset, const ResolvedOptions& options);

/// Returns a one-line warning with the figures of `shuffle_cost`; empty if it is. Throws std::bad_alloc.
std::string shuffle_advice(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
