// SPDX-License-Identifier: Apache-2.0
// One side of a copy: the objects in the file, and how each dataset is copied. Internal to this folder;
// callers hold an Hdf5Session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/write/object_copy.hpp"
#include "store/write/stored_values.hpp"

namespace h5feed {

/// Error text for property lists that libhdf5 cannot read.
inline constexpr const char* kNoProperties = "its properties cannot be read";
/// Error text for types that libhdf5 cannot read.
inline constexpr const char* kNoType = "its type cannot be read";

/// How a dataset is copied.
enum class CopyMethod : std::uint8_t {
  by_caller,     ///< Created by the copy, filled by the caller
  verbatim,      ///< By H5Ocopy, with its chunks unchanged
  by_values,     ///< Read and written: references and committed types must be those of the copy
  virtual_view,  ///< Virtual: its values are in its sources
  external       ///< External storage: its values are in files of their own
};

/// An open file and its objects. Functions throw DatasetError, naming the object that holds it, for a
/// reference to an object outside the file's tree.
struct CopySide {
  hid_t file = H5I_INVALID_HID;  ///< HDF5 identifier of the file
  LargeMetadataCache cache;      ///< All objects are opened by their names, in the order of the groups
  Hdf5Calls calls;               ///< Error reporting with the file's name
  ObjectTree tree;               ///< All objects and links of the file
  std::map<ObjectKey, std::pair<std::string, CopiedStorage>> filled;  ///< Datasets that the caller fills
  std::uint64_t file_bytes = 0;                                       ///< Size of the file
  bool newer_than_1_8 = false;  ///< The file may use layout versions newer than HDF5 1.8, for any layout

  /// Reads the object tree of `source`. Throws FileError and DatasetError.
  CopySide(const H5File& source, const Hdf5Session& session, const CopyPlan& plan)
      H5FEED_REQUIRES(hdf5_mutex);

  /// Opens the object at `path`. Throws FileError.
  ScopedId open(const std::string& path) const H5FEED_REQUIRES(hdf5_mutex);

  /// Returns the object that a reference within `holder` points to. Throws DatasetError if it is not in the
  /// file's tree.
  const TreeObject& target(ObjectKey key, const std::string& holder) const;

  /// Returns the dataset that a region reference within `holder` points to, and the region. Throws
  /// DatasetError if it is not in the file's tree.
  std::pair<const TreeObject*, ScopedId> region(const std::byte* value, const std::string& holder) const
      H5FEED_REQUIRES(hdf5_mutex);

  /// Returns a text for a reference that is the same in a faithful copy: the path of its object and, for a
  /// region reference, a summary of the region; "null" for a null reference. Throws DatasetError if the
  /// object is not in the file's tree.
  std::string reference_text(ValueShape::Kind kind, const std::byte* value, const std::string& holder) const
      H5FEED_REQUIRES(hdf5_mutex);

  /// Throws DatasetError if `values` contains a reference that cannot be copied.
  void check_references(const ValueShape& shape, std::byte* values, std::size_t elements,
                        const std::string& holder) const H5FEED_REQUIRES(hdf5_mutex);

  /// Returns how a dataset is copied. Throws DatasetError if it cannot be copied, and FileError if its values
  /// lie outside the file.
  CopyMethod method_of(const TreeObject& object, hid_t dataset, const CopyPlan& plan) const
      H5FEED_REQUIRES(hdf5_mutex);
};

/// Returns whether a region reference is null: all its bytes are zero.
bool null_region(const std::byte* value) noexcept;

/// Returns the filters in the property list that libhdf5 does not have.
std::vector<FilterSpec> missing_filters(const H5::DSetCreatPropList& plist);

/// Reads all values of an attribute and calls `use` with them; they are freed when it returns. Throws
/// FileError, DatasetError and what `use` throws.
void with_attribute(const Hdf5Calls& calls, hid_t attribute, const std::string& holder,
                    const std::function<void(hid_t type, hid_t space, const ValueShape& shape,
                                             std::span<std::byte> values, std::size_t elements)>& use)
    H5FEED_REQUIRES(hdf5_mutex);

/// Calls `use` with the fill value of a dataset if it has one of its own, which is freed when it returns.
/// Throws FileError and what `use` throws.
void with_fill_value(const Hdf5Calls& calls, const H5::DSetCreatPropList& plist, hid_t type,
                     const std::string& path, const std::function<void(std::span<std::byte> value)>& use)
    H5FEED_REQUIRES(hdf5_mutex);

/// Calls `work` in a new Hdf5Session. Throws what it throws, and FileError for an H5::Exception, which only
/// property lists throw: all other errors already have a message.
template <typename Work>
void in_copy_session(const H5File& file, const Work& work) {
  const Hdf5Session session;
  try {
    work(session);
  } catch (const H5::Exception&) {
    throw FileError(file.path().string() +
                    ": libhdf5 cannot describe its objects: " + session.error_and_cure());
  }
}

}  // namespace h5feed
