// A field whose samples differ in length, from part to part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/ragged_part.hpp"

namespace h5feed {

/// Rows of several parts, one after the other. Immutable and thread-safe.
class RaggedField {
 public:
  /// At least one part; all of one type and element shape.
  explicit RaggedField(std::vector<std::shared_ptr<const RaggedPart>> parts);

  /// Place of the first part, for messages.
  const std::string& place() const noexcept { return parts_.front()->place(); }
  /// Of the part that has the row.
  const std::string& place_of(std::uint64_t row) const { return parts_[part_of(row)]->place(); }
  DType dtype() const noexcept { return parts_.front()->dtype(); }
  /// Of one element: what follows the first dimension of a sample.
  const std::vector<std::uint64_t>& element_shape() const noexcept { return parts_.front()->element_shape(); }
  std::uint64_t element_bytes() const noexcept { return parts_.front()->element_bytes(); }
  std::uint64_t element_values() const noexcept { return element_bytes() / size_of(dtype()); }

  std::uint64_t rows() const noexcept { return lengths_.size(); }
  /// In elements.
  std::uint64_t length(std::uint64_t row) const noexcept { return lengths_[row]; }
  /// The most elements that `count` different rows have together.
  std::uint64_t most_elements(std::uint64_t count) const;
  std::uint64_t longest() const noexcept { return longest_; }

  /// As RaggedPart::read.
  ReadCost read(std::uint64_t row, std::span<std::byte> out) const;

 private:
  std::size_t part_of(std::uint64_t row) const;

  std::vector<std::shared_ptr<const RaggedPart>> parts_;
  std::vector<std::uint64_t> first_rows_;  // of each part
  std::vector<std::uint64_t> lengths_;
  std::uint64_t longest_ = 0;
};

}  // namespace h5feed
