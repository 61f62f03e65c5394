// SPDX-License-Identifier: Apache-2.0
// How a loader's `cache_bytes` are used.
#pragma once

#include <cstdint>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// In bytes, by `CachePolicy`.
struct CacheLayout {
  std::uint64_t chunk_bytes = 0;    ///< capacity for decoded chunks, those that are being decoded included
  std::uint64_t staying_bytes = 0;  ///< of it, for chunks that are never evicted
  std::uint64_t samples = 0;        ///< beside chunks: samples of which rows are kept
};

/// Decoded bytes of the chunks that go through the cache: of the data those that samples come from, where
/// rows do not bypass it; of a large target all.
std::uint64_t cached_data_bytes(const DatasetState& dataset, const ResolvedOptions& options);

CacheLayout cache_layout(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
