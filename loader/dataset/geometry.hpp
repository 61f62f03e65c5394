// SPDX-License-Identifier: Apache-2.0
// Maps stored dimensions to the dimensions that a training loop sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed {

/// The shape of one sample and the arrangement of its stored elements.
struct SampleGeometry {
  std::vector<std::int64_t> shape;  ///< Shape as delivered; (C,H,W) for images, (C,D,H,W) for volumes
  std::uint64_t channels = 1;       ///< Number of channels; 1 for `InputLayout::none` and targets
  std::uint64_t pixels = 1;         ///< Elements per channel
  bool channels_last = false;       ///< C is stored last, and above 1; delivery transposes
};

/// Returns whether `InputLayout::automatic` takes a dataset of this shape for images: (N,H,W) of u8, or 4
/// dimensions of which either the second or the last, but not both, is 1, 3 or 4.
bool looks_like_images(const std::vector<std::uint64_t>& shape, DType dtype) noexcept;

/// Returns `layout`, with `automatic` resolved from the shape. Throws DatasetError, naming the choices, if
/// the dataset is a scalar, `automatic` cannot decide, or the layout does not fit the number of dimensions.
InputLayout decided_layout(const DatasetInfo& info, InputLayout layout);

/// Returns the dimension of the channels in datasets of a decided layout: with `none` the second; nullopt if
/// the layout has none.
std::optional<std::size_t> channel_dimension(InputLayout layout) noexcept;

/// Returns the geometry of the data under `layout`. Throws DatasetError like `decided_layout`.
SampleGeometry data_geometry(const DatasetInfo& info, InputLayout layout);

/// Returns the geometry of a target: (N,1), (N,1,1), … are squeezed to (N); other shapes stay.
SampleGeometry target_geometry(const DatasetInfo& info);

}  // namespace h5feed
