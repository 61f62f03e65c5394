// From stored dimensions to the dimensions a training loop sees.
#pragma once

#include <cstdint>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/dataset_info.hpp"

namespace h5feed {

/// Shape of one sample, and how its stored elements are arranged.
struct SampleGeometry {
  std::vector<std::int64_t> shape;  ///< as delivered: (C,H,W) for images
  std::uint64_t channels = 1;       ///< 1 where the dimensions carry no meaning (`InputLayout::none`)
  std::uint64_t pixels = 1;         ///< elements per channel
  bool channels_last = false;       ///< stored (H,W,C) with C > 1: delivery transposes
};

/// Whether `automatic` takes this dataset for images.
bool looks_like_images(const std::vector<std::uint64_t>& shape, DType dtype) noexcept;

/// `layout`, or what `automatic` decides. Throws DatasetError as `data_geometry`.
InputLayout decided_layout(const DatasetInfo& info, InputLayout layout);

/// Applies the rules of `InputLayout`. Throws DatasetError that prints the shape and the choices
/// where the layout has to be stated or does not fit.
SampleGeometry data_geometry(const DatasetInfo& info, InputLayout layout);

/// Targets: (N,1), (N,1,1), … are squeezed to (N), everything else stays.
SampleGeometry target_geometry(const DatasetInfo& info);

}  // namespace h5feed
