// SPDX-License-Identifier: Apache-2.0
// All objects and links of an HDF5 file. Internal to store/; callers hold an Hdf5Session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {

/// Owns an HDF5 identifier; create and destroy it within one session. Move-only.
class ScopedId {
 public:
  ScopedId() = default;
  explicit ScopedId(hid_t id) noexcept : id_(id) {}
  ScopedId(ScopedId&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  ScopedId& operator=(ScopedId&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~ScopedId() {
    if (id_ >= 0) H5Idec_ref(id_);
  }
  /// Returns the identifier; negative if there is none.
  hid_t get() const noexcept { return id_; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Error text for objects that libhdf5 cannot open.
inline constexpr std::string_view kCannotOpen = "libhdf5 cannot open it";

/// Turns failed libhdf5 calls into errors that name the file and object. Borrows the session.
class Hdf5Calls {
 public:
  Hdf5Calls(const Hdf5Session& session, std::string file) : session_(session), file_(std::move(file)) {}

  /// Returns `result`; throws FileError with the `problem` if it is negative.
  template <typename Result>
  Result done(Result result, std::string_view object, std::string_view what) const {
    if (result < 0) fail(object, what);
    return result;
  }
  /// Returns an owner of the identifier `result`; throws FileError with the `problem` if it is negative.
  ScopedId id(hid_t result, std::string_view object, std::string_view what) const {
    return ScopedId(done(result, object, what));
  }

  /// Returns "train.h5:/images: `what`: libhdf5's reason for the last failed call; next step".
  std::string problem(std::string_view object, std::string_view what) const;

  /// Returns the file's name in messages.
  const std::string& file() const noexcept { return file_; }

  /// Throws DatasetError with the message "train.h5:/images: `why`".
  [[noreturn]] void refuse(std::string_view object, std::string_view why) const;

 private:
  [[noreturn]] void fail(std::string_view object, std::string_view what) const;

  const Hdf5Session& session_;
  const std::string file_;
};

/// Identifies an object of a file, whatever its names: the value of an object reference to it.
using ObjectKey = hobj_ref_t;

/// A link within a group.
struct TreeLink {
  std::string name;
  H5L_type_t type = H5L_TYPE_HARD;
  H5T_cset_t character_set = H5T_CSET_ASCII;  ///< Encoding of the name
  std::int64_t created = 0;                   ///< Place in the order of creation, if the group tracks it
  ObjectKey target = 0;                       ///< Target of a hard link
  std::vector<char> value = {};               ///< Value of any other link, from H5Lget_val
};

/// An object of a file.
struct TreeObject {
  std::string path;  ///< First path to the object, breadth first
  H5I_type_t kind = H5I_GROUP;
  ObjectKey key = 0;
  std::vector<TreeLink> links = {};  ///< Links of a group, in creation order if tracked, else by name
};

/// All objects of a file: the root first, then breadth first in the order of the links.
struct ObjectTree {
  std::vector<TreeObject> objects;
  std::unordered_map<ObjectKey, std::size_t> places;  ///< Index in `objects` by key

  /// Returns the object with this key; null if it is not in the tree.
  const TreeObject* find(ObjectKey key) const noexcept {
    const auto found = places.find(key);
    return found == places.end() ? nullptr : &objects[found->second];
  }
};

/// Reads all objects and links of a file. Throws FileError; DatasetError for links and objects of unknown
/// kinds.
ObjectTree read_tree(hid_t file, const Hdf5Calls& calls) H5FEED_REQUIRES(hdf5_mutex);

/// Returns the key of the object `name` relative to `location`. Throws FileError that names `object`.
ObjectKey key_of(hid_t location, const char* name, const Hdf5Calls& calls, std::string_view object)
    H5FEED_REQUIRES(hdf5_mutex);

/// Returns the names of an object's attributes, in creation order if tracked, else by name. Throws FileError.
std::vector<std::string> attribute_names(hid_t object, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
