// SPDX-License-Identifier: Apache-2.0
// Paths that stay in their file. Internal to this folder; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <string>

namespace h5feed {

/// Access with which libhdf5 stops at links into other files. What it tells of an object there, addresses
/// above all, is not about the file that was asked, and to open whatever such a link names may block (a
/// FIFO).
class WithinFile {
 public:
  /// Throws std::bad_alloc.
  WithinFile();
  WithinFile(const WithinFile&) = delete;
  WithinFile& operator=(const WithinFile&) = delete;

  hid_t links() const noexcept { return access_.getId(); }
  const H5::DSetAccPropList& datasets() const noexcept { return access_; }

  /// Whether there is an object at `path`; one behind a link into another file is not.
  bool has_object(const H5::H5File& file, const std::string& path) const noexcept;

  /// H5I_GROUP, H5I_DATASET, … Throws H5::Exception where there is none.
  H5I_type_t type_of(const H5::H5File& file, const std::string& path) const;

  /// The file that a path led into, as the link has it, and the object there; empty where none did.
  const std::string& other_file() const noexcept { return met_.file; }
  const std::string& other_path() const noexcept { return met_.path; }
  /// What `rest`, "/images" or nothing, names behind that object.
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
