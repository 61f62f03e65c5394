// SPDX-License-Identifier: Apache-2.0
#include "store/format/dataset_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace h5feed {

void add_filters(std::vector<FilterSpec>& filters, const std::vector<FilterSpec>& more) {
  for (const FilterSpec& filter : more) {
    if (std::ranges::find(filters, filter.id, &FilterSpec::id) == filters.end()) filters.push_back(filter);
  }
}

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

std::string DatasetInfo::place() const { return fmt::format("{}:{}", file, short_path(path)); }

std::string short_path(std::string_view path) {
  constexpr std::size_t kLongest = 120;
  constexpr std::string_view kLeftOut = "…";
  if (path.size() <= kLongest) return std::string(path);
  // No character of several bytes (UTF-8) is cut.
  const auto within_character = [path](std::size_t at) { return (path[at] & 0xC0) == 0x80; };
  constexpr std::size_t kKept = (kLongest - kLeftOut.size()) / 2;
  std::size_t head = kKept;
  std::size_t tail = path.size() - kKept;
  while (head > 0 && within_character(head)) --head;
  while (tail < path.size() && within_character(tail)) ++tail;
  return fmt::format("{}{}{}", path.substr(0, head), kLeftOut, path.substr(tail));
}

std::string format_shape(const std::vector<std::uint64_t>& shape) {
  if (shape.empty()) return "scalar";
  constexpr std::size_t kLongest = 120;
  constexpr std::size_t kShown = 3;
  const std::string text = fmt::format("{}", fmt::join(shape, "×"));
  if (text.size() <= kLongest || shape.size() <= kShown + 1) return text;
  return fmt::format("{}×…×{} ({} dimensions)", fmt::join(shape.begin(), shape.begin() + kShown, "×"),
                     shape.back(), shape.size());
}

}  // namespace h5feed
