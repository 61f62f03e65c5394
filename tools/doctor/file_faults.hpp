// SPDX-License-Identifier: Apache-2.0
// Faults of a file: damage, how its samples are stored, and where it lies.
#pragma once

#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "tools/doctor/fault.hpp"

namespace h5feed::cli {

/// Returns the faults of the samples and of those fields that are not read whole at open, causes before
/// effects. Reads a few chunks of each. `options` are those of the loader that reads them. Blocks. Throws
/// Interrupted.
std::vector<Fault> file_faults(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed::cli
