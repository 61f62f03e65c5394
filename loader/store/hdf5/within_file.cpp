// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/within_file.hpp"

#include <exception>
#include <new>

namespace h5feed {

WithinFile::WithinFile() {
  if (H5Pset_elink_cb(access_.getId(), refuse, &met_) < 0) throw std::bad_alloc();
}

// Called from libhdf5's C code, which no exception may cross.
herr_t WithinFile::refuse(const char*, const char*, const char* file, const char* path, unsigned*, hid_t,
                          void* met) noexcept {
  try {
    *static_cast<Met*>(met) = {.file = file, .path = path};
  } catch (const std::exception&) {
  }
  return -1;
}

bool WithinFile::has_object(const H5::H5File& file, const std::string& path) const noexcept {
  return H5Oexists_by_name(file.getId(), path.c_str(), links()) > 0;
}

std::string WithinFile::other_path_to(const std::string& rest) const {
  return met_.path == "/" && !rest.empty() ? rest : met_.path + rest;
}

H5I_type_t WithinFile::type_of(const H5::H5File& file, const std::string& path) const {
  const hid_t object = H5Oopen(file.getId(), path.c_str(), links());
  if (object < 0) throw H5::FileIException("H5Oopen", "failed");
  const H5I_type_t type = H5Iget_type(object);
  H5Oclose(object);
  return type;
}

}  // namespace h5feed
