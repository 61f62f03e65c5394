// SPDX-License-Identifier: Apache-2.0
// From the options of a dataset to the process that calls libhdf5 for it.
#pragma once

#include <memory>

#include "h5feed/dataset.hpp"
#include "store/isolation/reader_process.hpp"

namespace h5feed {

/// Returns the process that is to call libhdf5 for the dataset, not started yet; null for this process.
/// Throws OptionError for limits out of range.
std::shared_ptr<ReaderProcess> reader_process_of(const DatasetOptions& options);

}  // namespace h5feed
