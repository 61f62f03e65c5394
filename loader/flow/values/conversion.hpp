// SPDX-License-Identifier: Apache-2.0
// The conversion of samples between chunk and consumer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/values/augmentation.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `normalize`, `output_dtype`, `output_layout` and `augment`, resolved for a dataset. Immutable.
struct Conversion {
  DType from = DType::u8;  ///< Stored element type
  DType to = DType::u8;    ///< Delivered element type
  std::uint64_t channels = 1;
  CropSizes sizes;                 ///< Extents of an image; other data counts as one row of all its elements
  bool in_channels_last = false;   ///< Stored channels-last with more than one channel
  bool out_channels_last = false;  ///< Delivered channels-last
  std::optional<NormalizeParameters> normalize;
  std::optional<Augmentation> augmentation;
  std::vector<std::int64_t> shape;  ///< Shape of a delivered row: (C,H,W) for images, else as stored
  std::size_t rows_per_sample = 1;  ///< Rows of a window, each of which is converted by itself
  bool timed = false;               ///< Whether a sample has a dimension of time

  /// Returns whether delivered samples can differ from stored ones.
  bool changes() const noexcept {
    return normalize || augmentation || from != to || in_channels_last != out_channels_last;
  }
  /// Elements of one delivered row.
  std::uint64_t out_elements() const noexcept { return channels * sizes.out_height * sizes.out_width; }
  /// Bytes of one delivered sample.
  std::size_t sample_bytes() const noexcept { return out_elements() * size_of(to) * rows_per_sample; }
  /// Returns the shape of a delivered sample.
  std::vector<std::int64_t> sample_shape() const;
  /// Returns the kernel that converts one row; the caller sets `past_caches`.
  RowKernelSpec kernel() const;
};

/// Returns `normalize` with the scale that `unit_range` implies for `data`; nullopt if there is nothing to
/// normalize. Throws OptionError if `normalize` has a different scale, or the data's integer type has no
/// unit-range convention.
std::optional<Normalize> with_unit_range(std::optional<Normalize> normalize, bool unit_range,
                                         const DatasetInfo& data);

/// Returns the conversion that the options ask for. Throws OptionError if they contradict each other or do
/// not fit the data.
Conversion resolve_conversion(const DataLoaderOptions& options, const DatasetState& dataset);

/// Returns the conversion that leaves the samples of `conversion` as stored: the CPU's part if a GPU
/// converts.
Conversion as_stored(const Conversion& conversion);

}  // namespace h5feed
