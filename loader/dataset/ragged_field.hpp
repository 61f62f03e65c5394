// SPDX-License-Identifier: Apache-2.0
// A field whose samples differ in length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/vlen/ragged_part.hpp"

namespace h5feed {

/// The rows of several parts in sequence. Takes 8 bytes per row in addition to the parts. Immutable and
/// thread-safe.
class RaggedField {
 public:
  /// Requires at least one part; all parts have the same dtype and element shape. Throws std::bad_alloc.
  explicit RaggedField(std::vector<std::shared_ptr<const RaggedPart>> parts);

  /// Returns the parts, in order.
  const std::vector<std::shared_ptr<const RaggedPart>>& parts() const noexcept { return parts_; }
  /// Returns file and dataset of the first part, for messages.
  const std::string& place() const noexcept { return parts_.front()->place(); }
  /// Returns file and dataset of the part that holds `row`, for messages.
  const std::string& place_of(std::uint64_t row) const { return parts_[part_of(row)]->place(); }
  DType dtype() const noexcept { return parts_.front()->dtype(); }
  /// Shape of one element: the dimensions of a sample after the first.
  const std::vector<std::uint64_t>& element_shape() const noexcept { return parts_.front()->element_shape(); }
  std::uint64_t element_bytes() const noexcept { return parts_.front()->element_bytes(); }
  /// Number of values in one element.
  std::uint64_t element_values() const noexcept { return element_bytes() / size_of(dtype()); }

  std::uint64_t rows() const noexcept { return lengths_.size(); }
  /// Length of a row in elements.
  std::uint64_t length(std::uint64_t row) const noexcept { return lengths_[row]; }
  /// Returns the most elements that `count` different rows can have together; 2^64 − 1 on overflow. O(rows).
  /// Throws std::bad_alloc.
  std::uint64_t most_elements(std::uint64_t count) const;
  /// Length of the longest row in elements.
  std::uint64_t longest() const noexcept { return longest_; }

  /// Reads a row into `out`, which has `length(row) * element_bytes()` bytes, in host byte order. Blocks.
  /// Throws FileError, ChunkError if the row is corrupt, std::bad_alloc.
  ReadCost read(std::uint64_t row, std::span<std::byte> out) const;

 private:
  std::size_t part_of(std::uint64_t row) const;

  std::vector<std::shared_ptr<const RaggedPart>> parts_;
  std::vector<std::uint64_t> first_rows_;  // first row of each part
  std::vector<std::uint64_t> lengths_;
  std::uint64_t longest_ = 0;
};

}  // namespace h5feed
