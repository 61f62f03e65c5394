// SPDX-License-Identifier: Apache-2.0
// Recognition of files that hold episodes, and how to read them by windows.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/info/open_lines.hpp"

namespace h5feed::cli {

/// Returns how to read windows of a file whose groups are episodes with actions (robomimic, ManiSkill,
/// Minari), which has a table of episodes for a dataset of rows (LeRobot, Diffusion Policy), or which is an
/// episode itself: with actions (ACT), a scan with its reconstruction (fastMRI), or fields over time (ERA5).
/// Reads the table. Throws FileError, ChunkError.
std::optional<OpenReading> episode_reading(const std::shared_ptr<H5File>& file,
                                           const std::vector<DatasetEntry>& entries);

}  // namespace h5feed::cli
