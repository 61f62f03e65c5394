// SPDX-License-Identifier: Apache-2.0
// Rows straight from the file, or chunks through the cache: which is cheaper.
#pragma once

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// What `RowReads::automatic` means for this data, order and cache. Looks whether some of the rows are in
/// the page cache; does not wait for the storage.
bool rows_cheaper_than_chunks(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
