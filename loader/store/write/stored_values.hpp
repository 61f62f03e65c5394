// SPDX-License-Identifier: Apache-2.0
// Values of any HDF5 type in memory: where references and variable-length parts are in them. Internal to
// this folder; callers hold an Hdf5Session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/hdf5/object_tree.hpp"

namespace h5feed {

/// One element of a type as libhdf5 lays it out in memory, parsed once for many elements.
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
  Kind kind = Kind::plain;
  std::size_t bytes = 0;
  std::size_t count = 1;        ///< elements of an array
  bool has_references = false;  ///< somewhere within
  bool has_variable = false;    ///< memory of its own, somewhere within
  /// Members of a compound with their offsets; the element type of an array or sequence.
  std::vector<std::pair<std::size_t, ValueShape>> parts = {};
};

/// Throws DatasetError, naming `object`, for references of a kind that h5feed does not know.
ValueShape value_shape(hid_t type, const Hdf5Calls& calls, const std::string& object)
    H5FEED_REQUIRES(hdf5_mutex);

/// Calls `visit` with every reference within `value`, which it may change.
void visit_references(const ValueShape& shape, std::byte* value,
                      const std::function<void(ValueShape::Kind, std::byte*)>& visit);

/// Calls `update` with bytes that are equal for equal values: variable-length parts in place of their
/// addresses, and `reference_text` of each reference.
void serialize(const ValueShape& shape, std::byte* value,
               const std::function<std::string(ValueShape::Kind, std::byte*)>& reference_text,
               const std::function<void(std::span<const std::byte>)>& update);

/// Frees at its end what libhdf5 allocated for the variable-length parts of values that it read.
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

/// Values read in pieces of bounded size, whole rows at a time, in row-major order; with the selections for
/// H5Dwrite. Frees variable-length parts after `use`. Throws FileError.
void read_in_pieces(hid_t dataset, hid_t type, const Hdf5Calls& calls, const std::string& path,
                    const std::function<void(std::span<std::byte> values, std::size_t elements,
                                             hid_t memory_space, hid_t file_space)>& use)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
