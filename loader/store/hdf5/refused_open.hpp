// SPDX-License-Identifier: Apache-2.0
// What to say about files and datasets that libhdf5 does not open. Internal to this folder; callers of all
// that takes a handle hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/option_spelling.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/hdf5/within_file.hpp"

namespace h5feed {

/// "/train/images" for "train/images".
std::string absolute_path(const std::string& name);

/// Why libhdf5 refused the file `name` that has the HDF5 signature: a part of a file in several parts,
/// truncated, not closed by its writer, else `library_reason`, which ends with a next step. Reads the
/// superblock; throws FileError where that fails.
std::string why_not_opened(const std::string& name, const ByteSource& bytes,
                           const std::string& library_reason);

/// Why the file `name` without the HDF5 signature is refused: a later part of a file in several parts, whose
/// first lies beside it, else no HDF5 file. Never throws FileError.
std::string why_not_hdf5(const std::filesystem::path& name);

/// After the dataset `name`, as the user gave it for `option`, could not be opened with `within`. Throws
/// FileError where it is listed but damaged; else DatasetError: it lies in another file, is a link to
/// nothing, or is none of those that the file has.
[[noreturn]] void throw_not_opened(const H5::H5File& handle, const WithinFile& within, const Hdf5Calls& calls,
                                   const std::string& name, const PathOption& option)
    H5FEED_REQUIRES(hdf5_mutex);

/// Throws DatasetError, which names the datasets in the group.
[[noreturn]] void throw_is_group(const H5::H5File& handle, const Hdf5Calls& calls, const std::string& name,
                                 const PathOption& option) H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
