// SPDX-License-Identifier: Apache-2.0
// What happens to the data between chunk and consumer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/augmentation.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `normalize`, `output_dtype`, `output_layout` and `augment`, resolved for a dataset. Immutable.
struct Conversion {
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  CropSizes sizes;                ///< of an image; of other data one row of all its elements
  bool in_channels_last = false;  ///< as stored, with more than one channel
  bool out_channels_last = false;
  std::optional<NormalizeParameters> normalize;
  std::optional<Augmentation> augmentation;
  std::vector<std::int64_t> shape;  ///< of a delivered sample: (C,H,W) or as stored

  /// Whether delivered samples differ from stored ones.
  bool changes() const noexcept {
    return normalize || augmentation || from != to || in_channels_last != out_channels_last;
  }
  std::uint64_t out_elements() const noexcept { return channels * sizes.out_height * sizes.out_width; }
  std::size_t row_bytes() const noexcept { return out_elements() * size_of(to); }
  /// `past_caches` is left for the caller.
  RowKernelSpec kernel() const;
};

/// `normalize` with the scale that `unit_range` means for `data`; unset where both leave the values as they
/// are. Throws OptionError where another scale is given as well, or the data is of integers without a
/// convention.
std::optional<Normalize> with_unit_range(std::optional<Normalize> normalize, bool unit_range,
                                         const DatasetInfo& data);

/// Throws OptionError for options that do not fit each other or the data.
Conversion resolve_conversion(const DataLoaderOptions& options, const DatasetState& dataset);

/// What the CPU does where a GPU does the conversion: nothing.
Conversion as_stored(const Conversion& conversion);

}  // namespace h5feed
