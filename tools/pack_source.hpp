// Arrays that `pack` copies row by row, whatever file they come from.
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

  virtual DType dtype() const noexcept = 0;
  /// At least one dimension, all extents at least 1.
  virtual const std::vector<std::uint64_t>& shape() const noexcept = 0;

  /// Fills `out`, whole elements, with the next ones in the byte order of the host. Throws FileError.
  virtual void read(std::span<std::byte> out) = 0;

  /// To be called when all elements were read: throws FileError where the file goes on.
  virtual void expect_end() = 0;

  /// The meaning of the values 0, 1, …, where the source tells; stored as the attribute class_names.
  virtual std::vector<std::string> class_names() const { return {}; }
};

}  // namespace h5feed::cli
