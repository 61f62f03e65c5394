// SPDX-License-Identifier: Apache-2.0
// Divides a loader's `cache_bytes` between decoded chunks and rows.
#pragma once

#include <cstdint>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Capacities of the cache under a `CachePolicy`.
struct CacheLayout {
  std::uint64_t chunk_bytes = 0;    ///< Capacity for decoded chunks, including those being decoded
  std::uint64_t staying_bytes = 0;  ///< Part of `chunk_bytes` whose chunks are never evicted
  std::uint64_t samples = 0;        ///< Samples whose rows are kept apart from chunks (`clairvoyant`)
};

/// Returns the decoded bytes of all chunks that go through the cache: for the data, the chunks that samples
/// come from, and none if its rows bypass the cache; for every other field not held in memory, all of its
/// chunks.
std::uint64_t cached_data_bytes(const DatasetState& dataset, const ResolvedOptions& options);

/// Returns whether the order takes chunks again that a cache of `cache_bytes` has let go, so that batches in
/// preparation at the same time save decodes: each decoded chunk serves all of them.
bool decodes_again(const DatasetState& dataset, const ResolvedOptions& options, std::uint64_t cache_bytes);

/// Returns the layout for the resolved `cache_policy`, `cache_bytes` and `concurrent_decodes`.
CacheLayout cache_layout(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
