// SPDX-License-Identifier: Apache-2.0
// Access to objects without following links into other files. Internal to this folder; callers hold an
// Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <string>

namespace h5feed {

/// Access properties with which libhdf5 does not follow links into other files. Metadata of an object in
/// another file, addresses above all, would not refer to the file that was asked, and opening the link's
/// target may block (a FIFO).
class WithinFile {
 public:
  /// Creates the access properties. Throws std::bad_alloc.
  WithinFile();
  WithinFile(const WithinFile&) = delete;
  WithinFile& operator=(const WithinFile&) = delete;

  /// Returns the link access property list.
  hid_t links() const noexcept { return access_.getId(); }
  /// Returns the dataset access property list.
  const H5::DSetAccPropList& datasets() const noexcept { return access_; }

  /// Returns whether there is an object at `path`; false if it is behind a link into another file.
  bool has_object(const H5::H5File& file, const std::string& path) const noexcept;

  /// Returns the type of the object at `path`: H5I_GROUP, H5I_DATASET, … Throws H5::Exception if there is
  /// none.
  H5I_type_t type_of(const H5::H5File& file, const std::string& path) const;

  /// Returns the other file that a path led into, as named in the link; empty if none did.
  const std::string& other_file() const noexcept { return met_.file; }
  /// Returns the object's path in the other file, as named in the link; empty if no path led into one.
  const std::string& other_path() const noexcept { return met_.path; }
  /// Returns the path in the other file that `rest`, "/images" or empty, names relative to the link's object.
  std::string other_path_to(const std::string& rest) const;

 private:
  struct Met {
    std::string file;
    std::string path;
  };
  static herr_t refuse(const char*, const char*, const char* file, const char* path, unsigned*, hid_t,
                       void* met) noexcept;

  H5::DSetAccPropList access_;
  mutable Met met_;
};

}  // namespace h5feed
