// SPDX-License-Identifier: Apache-2.0
// Filling the cache before the first batch.
#pragma once

#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/measure/counters.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Loads every chunk that samples come from (those of `chosen`, all where null) and the cache does not have,
/// on `threads` threads of its own, while there is room; blocks until that is done. Says how far it is, every
/// few seconds. A chunk that cannot be read is left to the batch that needs it. Throws std::bad_alloc,
/// std::system_error.
void preload_chunks(const DatasetState& dataset, const SampleSubset* chosen, ChunkCache& cache,
                    Counters& counters, unsigned threads);

}  // namespace h5feed
