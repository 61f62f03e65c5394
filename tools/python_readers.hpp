// What readers in Python need for a file.
#pragma once

#include <algorithm>
#include <vector>

#include "store/filters.hpp"

namespace h5feed::cli {

/// Whether h5py reads one of these filters only with the hdf5plugin package: it brings those of libhdf5, and
/// LZF, itself.
inline bool needs_hdf5plugin(const std::vector<FilterSpec>& filters) {
  return std::any_of(filters.begin(), filters.end(), [](const FilterSpec& filter) {
    return filter.id > filter_id::kScaleOffset && filter.id != filter_id::kLzf;
  });
}

}  // namespace h5feed::cli
