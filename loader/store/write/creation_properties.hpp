// SPDX-License-Identifier: Apache-2.0
// HDF5 creation property lists for files that h5feed writes. Internal to this folder; callers hold an
// Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <vector>

#include "store/format/dataset_info.hpp"

namespace h5feed {

/// Appends `filters` to a dataset creation property list, with the parameters that libhdf5 and its plugins
/// expect. Throws H5::Exception.
void add_filters(const H5::DSetCreatPropList& plist, const std::vector<FilterSpec>& filters,
                 std::size_t chunk_bytes, std::size_t element_bytes);

/// Copies whether times are kept, the creation order settings of links and attributes, and the thresholds
/// from which they are indexed, between group creation property lists. Returns a negative value if libhdf5
/// fails.
herr_t copy_group_properties(hid_t from, hid_t to);

/// Copies when the fill value is written, and the settings of attributes and times, between dataset creation
/// property lists. Returns a negative value if libhdf5 fails.
herr_t copy_dataset_properties(hid_t from, hid_t to);

}  // namespace h5feed
