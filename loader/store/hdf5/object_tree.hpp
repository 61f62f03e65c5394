// SPDX-License-Identifier: Apache-2.0
// All objects and links of an HDF5 file. Internal to this folder; callers hold an Hdf5Session.
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

/// Owner of an HDF5 identifier within one session. Move-only.
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
  hid_t get() const noexcept { return id_; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

inline constexpr std::string_view kCannotOpen = "libhdf5 cannot open it";

/// Turns failed libhdf5 calls into errors that name file and object.
class Hdf5Calls {
 public:
  Hdf5Calls(const Hdf5Session& session, std::string file) : session_(session), file_(std::move(file)) {}

  /// `result`, or FileError with the `problem` where it is negative.
  template <typename Result>
  Result done(Result result, std::string_view object, std::string_view what) const {
    if (result < 0) fail(object, what);
    return result;
  }
  ScopedId id(hid_t result, std::string_view object, std::string_view what) const {
    return ScopedId(done(result, object, what));
  }

  /// "train.h5:/images: `what`: libhdf5's reason for the call that failed last; next step".
  std::string problem(std::string_view object, std::string_view what) const;

  const std::string& file() const noexcept { return file_; }

  /// Throws DatasetError: "train.h5:/images: `why`".
  [[noreturn]] void refuse(std::string_view object, std::string_view why) const;

 private:
  [[noreturn]] void fail(std::string_view object, std::string_view what) const;

  const Hdf5Session& session_;
  const std::string file_;
};

/// Tells one object of a file from another, whatever its names: the value of an object reference to it.
using ObjectKey = hobj_ref_t;

struct TreeLink {
  std::string name;
  H5L_type_t type = H5L_TYPE_HARD;
  H5T_cset_t character_set = H5T_CSET_ASCII;
  ObjectKey target = 0;          ///< of hard links
  std::vector<char> value = {};  ///< of others, as H5Lget_val gives it
};

struct TreeObject {
  std::string path;  ///< the first that leads to it, breadth first
  H5I_type_t kind = H5I_GROUP;
  ObjectKey key = 0;
  std::vector<TreeLink> links = {};  ///< of groups, in creation order where that is tracked, else by name
};

/// Root first, then breadth first in the order of the links.
struct ObjectTree {
  std::vector<TreeObject> objects;
  std::unordered_map<ObjectKey, std::size_t> places;

  /// Null where nothing in the tree has this key.
  const TreeObject* find(ObjectKey key) const noexcept {
    const auto found = places.find(key);
    return found == places.end() ? nullptr : &objects[found->second];
  }
};

/// Throws FileError, and DatasetError for links and objects of unknown kinds.
ObjectTree read_tree(hid_t file, const Hdf5Calls& calls) H5FEED_REQUIRES(hdf5_mutex);

ObjectKey key_of(hid_t location, const char* name, const Hdf5Calls& calls, std::string_view object)
    H5FEED_REQUIRES(hdf5_mutex);

/// Names of an object's attributes, in creation order where that is tracked, else by name.
std::vector<std::string> attribute_names(hid_t object, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
