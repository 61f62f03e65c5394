// SPDX-License-Identifier: Apache-2.0
// Error messages for files and datasets that libhdf5 does not open. Internal to this folder. Callers of the
// functions that take a handle must hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/option_spelling.hpp"
#include "store/checks/examined_headers.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/hdf5/within_file.hpp"

namespace h5feed {

/// Returns the path with exactly one leading slash: "/train/images" for "train/images".
std::string absolute_path(const std::string& name);

/// Returns the message for the file `name`, which has the HDF5 signature but which libhdf5 refused: it is one
/// of the parts of a file in several parts, truncated, or not closed by its writer; else `library_reason`,
/// which must end with a next step. Reads the superblock from `bytes`. Throws FileError if that fails.
std::string why_not_opened(const std::string& name, const ByteSource& bytes,
                           const std::string& library_reason);

/// Returns the message for the file `name` without the HDF5 signature: it is one of the parts of a file in
/// several parts, if the first part or the one with the metadata is in the same directory; else it is not an
/// HDF5 file. Never throws FileError.
std::string why_not_hdf5(const std::filesystem::path& name);

/// Throws FileError with the `header_problem` of `path`, if there is one.
void refuse_damaged_header(const H5::H5File& handle, const WithinFile& within, const Hdf5Calls& calls,
                           ExaminedHeaders& headers, const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

/// Returns where `path`, which is absolute, leads. Throws FileError with its `header_problem`, if there is
/// one.
PathEnd find_end(const H5::H5File& handle, const Hdf5Calls& calls, ExaminedHeaders& headers,
                 const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

/// Throws the error for a dataset that could not be opened with `within`; `name` is the path that the user
/// gave for `option`. Throws FileError if the dataset is listed but damaged; else DatasetError: the dataset
/// is in another file, is a link that leads nowhere, or does not exist.
[[noreturn]] void throw_not_opened(const H5::H5File& handle, const WithinFile& within, const Hdf5Calls& calls,
                                   ExaminedHeaders& headers, const std::string& name,
                                   const PathOption& option) H5FEED_REQUIRES(hdf5_mutex);

/// Throws DatasetError for a path `name` that is a group; the message names the datasets in the group.
[[noreturn]] void throw_is_group(const H5::H5File& handle, const Hdf5Calls& calls, ExaminedHeaders& headers,
                                 const std::string& name, const PathOption& option)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
