// SPDX-License-Identifier: Apache-2.0
// Recognition of files whose samples are windows in time.
#pragma once

#include <memory>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/info/open_lines.hpp"

namespace h5feed::cli {

/// Returns whether a dataset looks like states of the weather, (T,C,H,W): floats on a grid of latitudes and
/// longitudes, with or without both poles.
bool looks_like_weather(const DatasetEntry& entry);

/// Returns how to read windows of a file whose groups are episodes with actions (robomimic, ManiSkill, ACT),
/// which has a table of episodes for a dataset of rows, which holds states of the weather on a grid of
/// latitudes and longitudes (ERA5), or a scan of fastMRI; at most one way. Reads the table. Throws FileError,
/// ChunkError.
std::vector<FoundSamples> window_samples(const std::shared_ptr<H5File>& file,
                                         const std::vector<DatasetEntry>& entries);

}  // namespace h5feed::cli
