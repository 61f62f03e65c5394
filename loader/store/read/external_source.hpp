// SPDX-License-Identifier: Apache-2.0
// The bytes of a dataset whose values are stored in other files ("external storage").
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/file_pool.hpp"

namespace h5feed {

/// Returns the path of the file that `file` calls `name` as external storage, as libhdf5 does: in the folder
/// of HDF5_EXTFILE_PREFIX, or in the working directory. It may not exist.
std::filesystem::path external_path(const H5File& file, const std::string& name);

/// Opens the external files of `info` as one source, in which the values begin at byte 0 and follow each
/// other as in a contiguous dataset. The files are looked for where libhdf5 looks: in the folder of
/// HDF5_EXTFILE_PREFIX, else in the working directory. `pool` opens and closes them as they are needed, and
/// stages copies of them. Blocks, also on the HDF5 mutex. Throws FileError that names the first file which is
/// missing, unreadable, no regular file, or too short, where libhdf5 would return zeros; later reads throw
/// FileError if a file was replaced or cut short since.
std::shared_ptr<const ByteSource> open_external_source(const H5File& file, const DatasetInfo& info,
                                                       FilePool& pool);

}  // namespace h5feed
