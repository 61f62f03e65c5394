// SPDX-License-Identifier: Apache-2.0
// Files outside an HDF5 file that hold the bytes of a dataset ("external storage").
#pragma once

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Throws FileError that names the first external file of `info` which is missing, unreadable or too short.
/// Looks for the files where libhdf5 does: in the folder of HDF5_EXTFILE_PREFIX, else in the working
/// directory. Blocks on the HDF5 mutex.
void check_external_files(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
