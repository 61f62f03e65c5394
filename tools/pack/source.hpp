// SPDX-License-Identifier: Apache-2.0
// Interface of arrays that `pack` copies row by row, whatever their file format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"

namespace h5feed::cli {

/// An array read from front to back. For one thread.
class ArraySource {
 public:
  ArraySource() = default;
  ArraySource(const ArraySource&) = delete;
  ArraySource& operator=(const ArraySource&) = delete;
  virtual ~ArraySource() = default;

  /// Type of the elements.
  virtual DType dtype() const noexcept = 0;
  /// Extents of the array: at least one dimension, each at least 1.
  virtual const std::vector<std::uint64_t>& shape() const noexcept = 0;

  /// Fills `out`, which must hold whole elements, with the next ones in the byte order of the host. Throws
  /// FileError.
  virtual void read(std::span<std::byte> out) = 0;

  /// Call when all elements have been read. Throws FileError if the file holds more data.
  virtual void expect_end() = 0;

  /// Names of the values 0, 1, …, if the source has them; stored as the attribute class_names.
  virtual std::vector<std::string> class_names() const { return {}; }
};

}  // namespace h5feed::cli
