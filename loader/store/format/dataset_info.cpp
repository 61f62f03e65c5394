// SPDX-License-Identifier: Apache-2.0
#include "store/format/dataset_info.hpp"

#include <fmt/format.h>

#include <functional>
#include <numeric>

namespace h5feed {

std::string_view name_of(StorageLayout layout) noexcept {
  switch (layout) {
    case StorageLayout::compact:
      return "compact";
    case StorageLayout::contiguous:
      return "contiguous";
    case StorageLayout::chunked:
      return "chunked";
    case StorageLayout::external:
      return "external";
    case StorageLayout::virtual_dataset:
      return "virtual";
  }
  return "unknown";
}

std::uint64_t DatasetInfo::row_elements() const noexcept {
  if (shape.empty()) return 1;
  return std::accumulate(shape.begin() + 1, shape.end(), std::uint64_t{1}, std::multiplies<>());
}

std::string DatasetInfo::shape_text() const {
  return fmt::format("{} {}", format_shape(shape), name_of(dtype));
}

std::string format_shape(const std::vector<std::uint64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "×"));
}

}  // namespace h5feed
