// SPDX-License-Identifier: Apache-2.0
#include "dataset/ragged_field.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace h5feed {

RaggedField::RaggedField(std::vector<std::shared_ptr<const RaggedPart>> parts) : parts_(std::move(parts)) {
  first_rows_.reserve(parts_.size());
  for (const auto& part : parts_) {
    first_rows_.push_back(lengths_.size());
    for (std::uint64_t row = 0; row < part->rows(); ++row) lengths_.push_back(part->length(row));
  }
  if (!lengths_.empty()) longest_ = std::ranges::max(lengths_);
}

std::uint64_t RaggedField::most_elements(std::uint64_t count) const {
  std::vector<std::uint64_t> longest_first = lengths_;
  const auto end =
      longest_first.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, lengths_.size()));
  std::ranges::nth_element(longest_first, end, std::greater());
  std::uint64_t elements = 0;
  for (auto length = longest_first.begin(); length != end; ++length) {
    if (__builtin_add_overflow(elements, *length, &elements)) return ~std::uint64_t{0};
  }
  return elements;
}

// Returns the last part that begins at or before the row; parts without rows begin at the same row as the
// next part.
std::size_t RaggedField::part_of(std::uint64_t row) const {
  const auto next = std::ranges::upper_bound(first_rows_, row);
  return static_cast<std::size_t>(next - first_rows_.begin()) - 1;
}

ReadCost RaggedField::read(std::uint64_t row, std::span<std::byte> out) const {
  const std::size_t number = part_of(row);
  return parts_[number]->read(row - first_rows_[number], out);
}

}  // namespace h5feed
