// SPDX-License-Identifier: Apache-2.0
// How the program opens files that it was given: libhdf5 reads them in a process of its own.
#pragma once

#include <filesystem>
#include <memory>

#include "h5feed/dataset.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed::cli {

/// Opens a file for reading in the process that all files of this program share. Throws as `H5File::open`,
/// and IsolationError.
std::shared_ptr<H5File> open_isolated(const std::filesystem::path& path);

/// Returns the options with `Isolation::process`.
DatasetOptions isolated(DatasetOptions options);

}  // namespace h5feed::cli
