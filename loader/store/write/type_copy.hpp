// SPDX-License-Identifier: Apache-2.0
// Types of a copy in the oldest form that holds them. Internal to this folder; callers hold an Hdf5Session.
#pragma once

#include <hdf5.h>

#include <string>

#include "store/hdf5/hdf5_session.hpp"
#include "store/hdf5/object_tree.hpp"

namespace h5feed {

/// An equal type, made anew. H5Tcopy keeps the version in which a file stores a type, and libhdf5 from 1.12
/// on stores those of files in its newest format in one that HDF5 1.8 cannot read and that a file of older
/// format refuses ("Datatype version out of bounds"). Throws FileError that names `path`.
ScopedId oldest_form(hid_t type, const Hdf5Calls& calls, const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
