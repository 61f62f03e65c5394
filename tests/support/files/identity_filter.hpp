// SPDX-License-Identifier: Apache-2.0
// A filter that libhdf5 has in this process and h5feed does not: its chunks go through libhdf5.
#pragma once

#include <hdf5.h>

#include "store/format/dataset_info.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {

/// Returns a filter that leaves chunks as they are, and registers it with libhdf5.
inline FilterSpec identity_filter() {
  constexpr H5Z_filter_t kId = 300;  // of the range that HDF5 leaves to tests
  static constexpr H5Z_class2_t kIdentity = {
      H5Z_CLASS_T_VERS,
      kId,
      1,
      1,
      "identity",
      nullptr,
      nullptr,
      [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) { return bytes; }};
  require(H5Zregister(&kIdentity), "H5Zregister");
  return {.id = kId, .optional = true, .params = {}, .name = "identity"};
}

}  // namespace h5feed::test
