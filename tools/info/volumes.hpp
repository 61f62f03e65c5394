// SPDX-License-Identifier: Apache-2.0
// Recognition of datasets that hold volumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/info/open_lines.hpp"
#include "tools/info/shapes.hpp"

namespace h5feed::cli {

/// Returns how to read a dataset by patches, if it looks like a volume or several: three extents of at least
/// 32 next to each other, of which at most one other is the number of channels (up to 4) and the first the
/// number of volumes; three dimensions alone only if chunks cut all of them, or if there are labels. Labels
/// are an integer dataset of the same extents.
std::optional<SampleReading> volume_reading(const DatasetEntry& entry, const DatasetInfo& info,
                                            const std::vector<DatasetEntry>& entries);

/// Returns a sentence if smaller chunks would make the patches of a dataset cheaper at random places, with
/// the voxels that a patch decodes and the command that writes such chunks. Returns an empty list if they
/// would not, if no reading is by patches, and for what may be images or, by `episodes`, a series of frames.
std::vector<std::string> patch_advice(const DatasetInfo& info, const std::vector<SampleReading>& readings,
                                      const std::optional<OpenReading>& episodes);

}  // namespace h5feed::cli
