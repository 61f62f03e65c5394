// SPDX-License-Identifier: Apache-2.0
// Cost of reading a sample that spans several chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/format/dataset_info.hpp"

namespace h5feed::cli {

/// Cost of samples, the rows of the first dimension, in a chunked dataset.
struct SampleCost {
  std::uint64_t chunks_per_sample = 1;
  /// Bytes decoded per byte wanted, for single samples in random order: no chunk is used twice.
  double decoded_per_wanted_random = 1;
  /// Bytes decoded per byte wanted, for whole epochs that use all of a chunk before it is dropped; above 1 if
  /// chunks extend beyond the dataset's edge.
  double decoded_per_wanted_epoch = 1;
  std::uint64_t chunk_bytes = 0;  ///< decoded bytes of each chunk
};

/// Returns the cost; empty unless the dataset is chunked and has samples.
std::optional<SampleCost> sample_cost(const DatasetInfo& info);

/// Returns "h5feed repack FILE NEW.h5 --dataset PATH OPTIONS", with a --filter if `options` has none and
/// h5feed cannot write the dataset's own filters.
std::string repack_command(const DatasetInfo& info, std::string_view options);

}  // namespace h5feed::cli
