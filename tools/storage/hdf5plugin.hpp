// SPDX-License-Identifier: Apache-2.0
// Which filters need the hdf5plugin package in Python.
#pragma once

#include <algorithm>
#include <vector>

#include "store/filters/filters.hpp"

namespace h5feed::cli {

/// Returns whether h5py needs the hdf5plugin package for one of these filters: h5py itself brings only
/// libhdf5's own filters and LZF.
inline bool needs_hdf5plugin(const std::vector<FilterSpec>& filters) {
  return std::any_of(filters.begin(), filters.end(), [](const FilterSpec& filter) {
    return filter.id > filter_id::kScaleOffset && filter.id != filter_id::kLzf;
  });
}

}  // namespace h5feed::cli
