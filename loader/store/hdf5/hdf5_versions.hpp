// SPDX-License-Identifier: Apache-2.0
// What differs between versions of libhdf5: names of types and functions, and what it takes for damage.
// Internal to store/.
#pragma once

#include <hdf5.h>

namespace h5feed {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info2_t;
using LinkInfo = H5L_info2_t;
inline constexpr auto kObjectInfoByName = H5Oget_info_by_name3;
inline constexpr auto kLinkInfo = H5Lget_info2;
#else
using ObjectInfo = H5O_info_t;
using LinkInfo = H5L_info_t;
inline constexpr auto kObjectInfoByName = H5Oget_info_by_name2;
inline constexpr auto kLinkInfo = H5Lget_info;
#endif

/// Calls `visit` for the links of a group in the order in which they are stored. Any other order makes
/// libhdf5 1.10 build a table of all of them first, of the size that the file claims; if one cannot be read,
/// it frees what the table does not hold yet, and the process ends. Returns a negative number if libhdf5
/// fails.
inline herr_t visit_links(hid_t group, herr_t (*visit)(hid_t, const char*, const LinkInfo*, void*),
                          void* data) {
#if H5_VERSION_GE(1, 12, 0)
  return H5Literate2(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit, data);
#else
  return H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit, data);
#endif
}

/// Calls `visit` for the attributes of an object in the order in which they are stored, for the reason that
/// `visit_links` gives. Returns a negative number if libhdf5 fails.
inline herr_t visit_attributes(hid_t object, H5A_operator2_t visit, void* data) {
  return H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit, data);
}

/// Returns where the header of the object is stored that a hard link of the file names; HADDR_UNDEF if
/// libhdf5 fails.
inline haddr_t address_of([[maybe_unused]] hid_t file, const LinkInfo& link) {
#if H5_VERSION_GE(1, 12, 0)
  haddr_t address = HADDR_UNDEF;
  return H5VLnative_token_to_addr(file, link.u.token, &address) < 0 ? HADDR_UNDEF : address;
#else
  return link.u.address;
#endif
}

/// Makes libhdf5 accept integers and floats that leave more than half of their bits unused, such as 12-bit
/// values in four bytes, in files that are opened or created with the access list `access`. From 1.14.4 on it
/// takes these for damage in files of the oldest format (H5Pset_relax_file_integrity_checks). Returns a
/// negative number if libhdf5 fails.
inline herr_t accept_unused_bits([[maybe_unused]] hid_t access) {
#if H5_VERSION_GE(1, 14, 4)
  return H5Pset_relax_file_integrity_checks(access, H5F_RFIC_UNUSUAL_NUM_UNUSED_NUMERIC_BITS);
#else
  return 0;
#endif
}

}  // namespace h5feed
