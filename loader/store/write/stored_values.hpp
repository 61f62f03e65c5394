// SPDX-License-Identifier: Apache-2.0
// Values of any HDF5 type in memory, and the references and variable-length parts in them. Internal to this
// folder; callers hold an Hdf5Session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "store/hdf5/object_tree.hpp"

namespace h5feed {

/// Error text for extents that libhdf5 cannot read.
inline constexpr const char* kNoExtent = "its extent cannot be read";

/// Memory layout of one element of a type in libhdf5, parsed once for many elements.
struct ValueShape {
  enum class Kind : std::uint8_t {
    plain,
    object_reference,
    region_reference,
    sequence,
    text,
    compound,
    array
  };
  struct Part;

  Kind kind = Kind::plain;
  std::size_t bytes = 0;        ///< Bytes of one element in memory
  std::size_t count = 1;        ///< Elements of an array
  bool has_references = false;  ///< Contains references at any depth
  bool has_variable = false;    ///< Contains variable-length parts at any depth
  /// Members of a compound; the element type of an array or sequence.
  std::vector<Part> parts;
};

/// A member of a compound, or the element type of an array or sequence.
struct ValueShape::Part {
  std::size_t offset = 0;  ///< In bytes from the start of the compound
  ValueShape shape;
};

/// Returns the memory layout of `type`. Throws DatasetError, naming `object`, for references of a kind that
/// h5feed does not know; FileError if libhdf5 fails.
ValueShape value_shape(hid_t type, const Hdf5Calls& calls, const std::string& object)
    H5FEED_REQUIRES(hdf5_mutex);

/// Calls `visit` with every reference within `value`; it may modify them.
void visit_references(const ValueShape& shape, std::byte* value,
                      const std::function<void(ValueShape::Kind, std::byte*)>& visit);

/// Calls `update` with bytes that are equal for equal values: variable-length parts are replaced by their
/// content, and references by their `reference_text`.
void serialize(const ValueShape& shape, std::byte* value,
               const std::function<std::string(ValueShape::Kind, std::byte*)>& reference_text,
               const std::function<void(std::span<const std::byte>)>& update);

/// Returns an upper bound of what a file's global heap grows by when `elements` values are written: their
/// parts of variable length, with the heap's own headers and gaps. Takes time for each of these parts only.
std::uint64_t heap_bytes(const ValueShape& shape, std::span<const std::byte> values, std::size_t elements);

/// Frees, when destroyed, the memory that libhdf5 allocated for variable-length parts of values that it read.
class Reclaim {
 public:
  Reclaim(hid_t type, hid_t space, void* values) noexcept : type_(type), space_(space), values_(values) {}
  Reclaim(const Reclaim&) = delete;
  Reclaim& operator=(const Reclaim&) = delete;
  ~Reclaim();

 private:
  hid_t type_;
  hid_t space_;
  void* values_;
};

}  // namespace h5feed
