// SPDX-License-Identifier: Apache-2.0
// One side of a copy: what is in the file, and how it comes over. Internal to this folder; callers hold an
// Hdf5Session.
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

inline constexpr const char* kNoProperties = "its properties cannot be read";
inline constexpr const char* kNoType = "its type cannot be read";

/// How one dataset comes over.
enum class CopyMethod : std::uint8_t {
  by_caller,     ///< created here, filled by the caller
  verbatim,      ///< by H5Ocopy, chunks as they are
  by_values,     ///< read and written: references and committed types must be those of the copy
  virtual_view,  ///< its values are those of its sources
  external       ///< its values are in files of their own
};

/// An open file and what is in it. References that lead nowhere are refused with the name of their holder.
struct CopySide {
  hid_t file = H5I_INVALID_HID;
  Hdf5Calls calls;
  ObjectTree tree;
  std::map<ObjectKey, std::pair<std::string, CopiedStorage>> filled;  ///< by the caller
  bool newer_than_1_8 = false;  ///< layouts of all kinds may have a version that 1.8 does not know

  CopySide(const H5File& source, const Hdf5Session& session, const CopyPlan& plan)
      H5FEED_REQUIRES(hdf5_mutex);

  ScopedId open(const std::string& path) const H5FEED_REQUIRES(hdf5_mutex);

  /// The object that a reference within `holder` points to.
  const TreeObject& target(ObjectKey key, const std::string& holder) const;

  /// The dataset that a region reference within `holder` points to, and the region.
  std::pair<const TreeObject*, ScopedId> region(const std::byte* value, const std::string& holder) const
      H5FEED_REQUIRES(hdf5_mutex);

  /// What a reference says, in words that are the same in a faithful copy.
  std::string reference_text(ValueShape::Kind kind, const std::byte* value, const std::string& holder) const
      H5FEED_REQUIRES(hdf5_mutex);

  /// Throws DatasetError for references that the copy cannot have.
  void check_references(const ValueShape& shape, std::byte* values, std::size_t elements,
                        const std::string& holder) const H5FEED_REQUIRES(hdf5_mutex);

  /// Throws DatasetError where the dataset cannot be carried over.
  CopyMethod method_of(const TreeObject& object, hid_t dataset, const CopyPlan& plan) const
      H5FEED_REQUIRES(hdf5_mutex);
};

/// Whether all bytes of a region reference are zero: it points to nothing.
bool null_region(const std::byte* value) noexcept;

/// Filters of the list that libhdf5 does not find.
std::vector<FilterSpec> missing_filters(const H5::DSetCreatPropList& plist);

/// All values of an attribute in memory, as long as `use` runs.
void with_attribute(const Hdf5Calls& calls, hid_t attribute, const std::string& holder,
                    const std::function<void(hid_t type, hid_t space, const ValueShape& shape,
                                             std::span<std::byte> values, std::size_t elements)>& use)
    H5FEED_REQUIRES(hdf5_mutex);

/// Runs `work` in a session. H5::Exception comes from property lists only; everything else has been named by
/// then.
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
