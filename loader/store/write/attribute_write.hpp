// SPDX-License-Identifier: Apache-2.0
// Writes one attribute through an open file. Internal to this folder.
#pragma once

#include <H5Cpp.h>

#include <string>

#include "store/hdf5/hdf5_session.hpp"
#include "store/write/attributes.hpp"

namespace h5feed {

/// Writes an attribute of the dataset or group `object`, replacing one of the same name. Throws
/// H5::Exception.
void put_attribute(const H5::H5File& file, const std::string& object, const NamedAttribute& attribute)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
