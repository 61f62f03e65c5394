// SPDX-License-Identifier: Apache-2.0
// Datatypes of a copy in the oldest format version that can hold them. Internal to this folder; callers hold
// an Hdf5Session.
#pragma once

#include <hdf5.h>

#include <string>

#include "store/hdf5/hdf5_session.hpp"
#include "store/hdf5/object_tree.hpp"

namespace h5feed {

/// Returns an equal type, constructed from its parts. H5Tcopy keeps the format version of a stored type;
/// libhdf5 1.12 and later store the types of files in their newest format in a version that HDF5 1.8 cannot
/// read and that a file of an older format rejects ("Datatype version out of bounds"). Throws FileError that
/// names `path`.
ScopedId oldest_form(hid_t type, const Hdf5Calls& calls, const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
