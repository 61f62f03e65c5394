// What reading one sample costs when samples lie across several chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/dataset_info.hpp"

namespace h5feed::cli {

/// Costs of samples, the rows of the first dimension, in a chunked dataset.
struct SampleCost {
  std::uint64_t chunks_per_sample = 1;
  /// Bytes decoded per byte wanted, for single samples in random order: nothing of a chunk is used twice.
  double decoded_per_wanted_random = 1;
  /// The same for whole epochs that use all of a chunk before it is dropped; above 1 where chunks reach
  /// over the dataset's edge.
  double decoded_per_wanted_epoch = 1;
  std::uint64_t chunk_bytes = 0;  ///< decoded, of each chunk
};

/// Empty unless the dataset is chunked and has samples.
std::optional<SampleCost> sample_cost(const DatasetInfo& info);

/// "h5feed repack FILE NEW.h5 --dataset PATH OPTIONS", with a --filter where `options` has none and h5feed
/// cannot write the dataset's own filters.
std::string repack_command(const DatasetInfo& info, std::string_view options);

/// One line that warns, with figures and what to do, where a sample spans several chunks; else empty.
std::string sample_cost_warning(const DatasetInfo& info);

}  // namespace h5feed::cli
