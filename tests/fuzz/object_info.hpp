// SPDX-License-Identifier: Apache-2.0
// Where libhdf5 stored an object.
#pragma once

#include <hdf5.h>

#include "support/files/h5_test_file.hpp"

namespace h5feed::test::fuzz {

/// Returns the address and the size of an object's header. Throws std::runtime_error if libhdf5 has no such
/// object.
inline auto object_info(hid_t file, const char* path) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info1_t object = {};
#else
  H5O_info_t object = {};
#endif
  test::require(H5Oget_info_by_name2(file, path, &object, H5O_INFO_BASIC | H5O_INFO_HDR, H5P_DEFAULT),
                "H5Oget_info_by_name2");
  return object;
}

}  // namespace h5feed::test::fuzz
