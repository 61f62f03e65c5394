// SPDX-License-Identifier: Apache-2.0
// Fills the cache before the first batch.
#pragma once

#include "dataset/dataset_state.hpp"
#include "flow/chunks/chunk_loader.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Loads every chunk that samples come from and the cache lacks, while there is room. `chosen` is the subset
/// of samples; null selects all. Uses `threads` threads, the caller's included, and blocks until they are
/// done. Logs its progress every 5 s. Leaves a chunk that cannot be read to the batch that needs it. Throws
/// std::bad_alloc, std::system_error.
void preload_chunks(const DatasetState& dataset, const SampleSubset* chosen, ChunkLoader& loader,
                    unsigned threads);

}  // namespace h5feed
