// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/sent_dataset.hpp"

#include <algorithm>

#include "store/format/chunk_geometry.hpp"

namespace h5feed {

bool WireMembers<DatasetInfo>::valid(const DatasetInfo& info) {
  // H5S_MAX_RANK, and the dimension of the values of an element.
  constexpr std::size_t kMostDimensions = 32 + 1;
  constexpr std::size_t kMostFilters = 32;
  constexpr unsigned kMostValues = 16;  // of a reference to a value of variable length
  const unsigned values = info.values_per_element;
  if (values < 1 || values > kMostValues || info.shape.size() > kMostDimensions) return false;
  if (info.max_shape.size() != info.shape.size() || info.filters.size() > kMostFilters) return false;
  if (values > 1 && (info.shape.size() < 2 || info.shape.back() != values)) return false;
  const bool chunked = info.layout == StorageLayout::chunked;
  if (chunked != !info.chunk_shape.empty()) return false;
  if (chunked && (info.chunk_shape.size() != info.shape.size() ||
                  std::ranges::find(info.chunk_shape, 0U) != info.chunk_shape.end() ||
                  (values > 1 && info.chunk_shape.back() != values)))
    return false;
  const std::size_t bytes = size_of(info.dtype);
  const std::uint64_t last_bit = std::uint64_t{info.bits.first} + info.bits.count;
  if (info.bits.count > 0 && (!is_integer(info.dtype) || last_bit > 8 * bytes)) return false;
  return info.fill_value.size() == bytes * values && within_limit(info.shape, bytes) &&
         within_limit(info.chunk_shape, bytes);
}

}  // namespace h5feed
