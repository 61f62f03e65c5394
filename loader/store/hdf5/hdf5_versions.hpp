// SPDX-License-Identifier: Apache-2.0
// Common names for libhdf5 types and functions whose names differ between its versions. Internal to store/.
#pragma once

#include <hdf5.h>

namespace h5feed {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info2_t;
using LinkInfo = H5L_info2_t;
inline constexpr auto kObjectInfoByName = H5Oget_info_by_name3;
inline constexpr auto kIterateLinks = H5Literate2;
inline constexpr auto kLinkInfo = H5Lget_info2;
#else
using ObjectInfo = H5O_info_t;
using LinkInfo = H5L_info_t;
inline constexpr auto kObjectInfoByName = H5Oget_info_by_name2;
inline constexpr auto kIterateLinks = H5Literate;
inline constexpr auto kLinkInfo = H5Lget_info;
#endif

}  // namespace h5feed
