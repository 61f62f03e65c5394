// SPDX-License-Identifier: Apache-2.0
// Chooses between reading rows directly from the file and chunks through the cache.
#pragma once

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Returns whether samples can be read without the rest of their chunks, past the cache.
bool has_rows_apart(const DatasetState& dataset) noexcept;

/// Returns the choice of `RowReads::automatic` for this data, order and cache: true to read rows directly.
/// Checks whether a sample of the rows is in the page cache; does not wait for storage.
bool rows_cheaper_than_chunks(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
