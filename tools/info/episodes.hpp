// SPDX-License-Identifier: Apache-2.0
// Recognition of files that hold episodes, and the lines that read them by windows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed::cli {

/// Returns the lines of C++ and Python that read windows of a file whose groups are episodes with actions
/// (robomimic, ManiSkill, ACT), or which has a table of episodes for a dataset of rows; empty if it has
/// neither. Reads the table. `shown` is the name of the file in the lines. Throws FileError, ChunkError.
std::string lines_of_episodes(const std::shared_ptr<H5File>& file, const std::vector<DatasetEntry>& entries,
                              const std::string& shown);

}  // namespace h5feed::cli
