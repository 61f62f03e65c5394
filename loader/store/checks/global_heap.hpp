// SPDX-License-Identifier: Apache-2.0
// Collections of the global heap (HDF5 File Format Specification, section III.E), which hold values of
// variable length and the lists of sources of virtual datasets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Finds objects in collections, whose objects it lists once, as many objects may lie in one; a million of
/// them are remembered. Borrows `bytes`. Not thread-safe.
class GlobalHeap {
 public:
  /// Where an object is stored.
  struct Object {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };

  explicit GlobalHeap(const MetadataBytes& bytes) noexcept : bytes_(bytes) {}

  /// Returns object `number` of the collection at address `collection`; nothing if it is not there, or if no
  /// collection is there, for which libhdf5 has an error. Sets `damage` to what makes libhdf5 read beyond the
  /// collection, visit the same object without end, or take for granted an object that is not there ("lie in
  /// a heap with free space of no size"). Throws FileError if the source cannot be read.
  std::optional<Object> find(std::uint64_t collection, std::uint64_t number, std::string_view& damage);

 private:
  // The objects of a collection by their numbers.
  struct Collection {
    bool there = false;
    std::string_view damage;
    std::map<std::uint64_t, Object> objects;
  };

  Collection examine(std::uint64_t address);

  const MetadataBytes& bytes_;
  std::map<std::uint64_t, Collection> collections_;
  std::uint64_t objects_ = 0;  // Of the collections that are listed
};

}  // namespace h5feed
